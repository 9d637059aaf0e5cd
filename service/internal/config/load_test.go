package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/rulefile"
)

// write makes files in a new directory.
func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		testrig.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testrig.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

func names(r *config.Rules) (all []string) {
	for _, rule := range r.Rules {
		all = append(all, rule.Name)
	}
	return all
}

func rule(name string) string { return "rules: [{name: " + name + ", key: " + name + ", rate: 5/m}]\n" }

func TestLoadFile(t *testing.T) {
	dir := write(t, map[string]string{"weir.conf": rule("a")})
	r, err := config.Load(filepath.Join(dir, "weir.conf"))
	if err != nil || !slices.Equal(names(r), []string{"a"}) || r.Hash != rulefile.Hash([]byte(rule("a"))) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := config.Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// A directory is its files in the order of their names, and no others.
func TestLoadDirectory(t *testing.T) {
	dir := write(t, map[string]string{
		"20-b.yml":      "apply: all\n" + rule("b"),
		"10-a.yaml":     rule("a"),
		"30-c.json":     `{"apply": "all", "unmatched": "deny", "rules": [{"key": "c c", "rate": "5/m"}]}`,
		"40-none.yaml":  "unmatched: deny\n",
		"50-d.yaml":     rule("d"),
		".hidden.yaml":  "nonsense",
		"README.md":     "nonsense",
		"sub/e.yaml":    "nonsense",
		"sub.yaml/f.md": "nonsense",
	})
	r, err := config.Load(dir)
	testrig.Must(t, err)
	if r.Apply != config.All || r.Unmatched != "deny" || !slices.Equal(names(r), []string{"a", "b", "c_c", "d"}) {
		t.Errorf("%+v", r)
	}
	again, err := config.Load(dir)
	if err != nil || again.Hash != r.Hash || len(r.Hash) != 12 {
		t.Errorf("the hashes %q and %q, %v", r.Hash, again.Hash, err)
	}
}

func TestLoadDirectoryErrors(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		files map[string]string
		want  string // $ is the directory
	}{
		{"no files", map[string]string{"README.md": ""}, "$: there is no *.yaml, *.yml or *.json in it"},
		{"no rules in any", map[string]string{"a.yaml": "apply: all\n", "b.yaml": "apply: all\n"}, "$/a.yaml:1:1: rules: must be given; [] if there are none"},
		{"an empty file", map[string]string{"a.yaml": rule("a"), "b.yaml": ""}, "$/b.yaml:1:1: want one document, beginning with rules:"},
		{"ways to apply that conflict", map[string]string{"a.yaml": "apply: all\n" + rule("a"), "b.yaml": "apply: first\n"},
			`$/b.yaml:1:8: apply = "first": must be as at $/a.yaml:1:8, or left out`},
		{"what becomes of the unmatched conflicts", map[string]string{"a.yaml": "unmatched: deny\n" + rule("a"), "b.yaml": "apply: first", "c.yaml": "# allow\nunmatched: allow\n"},
			`$/c.yaml:2:12: unmatched = "allow": must be as at $/a.yaml:1:12, or left out`},
		{"a wrong value is told where it is", map[string]string{"a.yaml": rule("a"), "b.yaml": "apply: some\n"}, `$/b.yaml:1:8: apply = "some": must be first or all`},
		{"a name in two files", map[string]string{"a.yaml": rule("a"), "b.yaml": "apply: first", "c.yaml": "\n" + rule("a")},
			`$/c.yaml:2:16: rules[0].name = "a": must differ from the name at $/a.yaml:1:16`},
		{"errors of all files", map[string]string{"a.yaml": "rules: [{key: a, rate: 5}]", "b.yaml": "rules: [", "c.yaml": "rules: [{key: a, rate: 5/m, burst: -1}]"},
			"$/b.yaml:1:8: not YAML: sequence end token ']' not found\n" +
				`$/a.yaml:1:24: rules[0].rate = "5": want a whole number, a slash and a period, such as 100/s, 5/m, 1000/h, 10000/d or 100/90s`},
		{"errors by the place in their file", map[string]string{"a.yaml": rule("a"), "b.yaml": "rules:\n- {key: a, rate: 5/m, burst: -1}\n- {key: a, rate: 5/m, queue: -1}\n", "c.yaml": "rules: [{rate: 5/m}]"},
			"$/b.yaml:2:30: rules[0].burst = -1: must be from 1 to 1000000000000\n$/b.yaml:3:30: rules[1].queue = -1: must be from 0 to 1000000\n" +
				"$/c.yaml:1:9: rules[0]: must have one of key, glob, regex and entries; has 0 of them"},
		{"too much together", map[string]string{"a.yaml": rule("a") + strings.Repeat("# comment\n", 1<<20), "b.yaml": strings.Repeat("# comment\n", 1<<20)},
			"$/b.yaml:1:1: more than 16777216 bytes, with the files before it"},
		{"GoCC's file is alone", map[string]string{"a.yaml": rule("a"), "b.json": `{"keys": []}`},
			"$/b.json:1:1: a file of GoCC's, whose rules are laid over each other: must be the only one"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			dir := write(t, tt.files)
			_, err := config.Load(dir)
			if want := strings.ReplaceAll(tt.want, "$", dir); err == nil || err.Error() != want {
				t.Errorf("%v: want\n%s", err, want)
			}
		})
	}
}

func TestLoadGoCCAloneInADirectory(t *testing.T) {
	r, err := config.Load(write(t, map[string]string{"config.json": goccFile}))
	if err != nil || !r.Merge || len(r.Rules) != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}

// configMap makes a directory as the kubelet makes it of a ConfigMap: links to
// files in ..data, which is a link to the directory of a version.
func configMap(t *testing.T, version string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	swap(t, dir, version)
	for _, name := range []string{"a.yaml", "b.yaml"} {
		testrig.Must(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	return dir
}

// swap puts another version in the place of the one there is.
func swap(t *testing.T, dir, version string) {
	t.Helper()
	before, _ := os.Readlink(filepath.Join(dir, "..data"))
	files := filepath.Join(dir, "..version_"+version)
	testrig.Must(t, os.MkdirAll(files, 0o755))
	for _, name := range []string{"a", "b"} {
		testrig.Must(t, os.WriteFile(filepath.Join(files, name+".yaml"), []byte(rule(name+"-"+version)), 0o644))
	}
	next := filepath.Join(dir, "..data_tmp")
	testrig.Must(t, os.Symlink(filepath.Base(files), next))
	testrig.Must(t, os.Rename(next, filepath.Join(dir, "..data")))
	if before != "" {
		testrig.Must(t, os.RemoveAll(filepath.Join(dir, before)))
	}
}

func TestLoadConfigMap(t *testing.T) {
	dir := configMap(t, "1")
	for _, version := range []string{"2", "3", "4"} {
		swap(t, dir, version)
		for path, want := range map[string][]string{dir: {"a-" + version, "b-" + version}, filepath.Join(dir, "b.yaml"): {"b-" + version}} {
			if r, err := config.Load(path); err != nil || !slices.Equal(names(r), want) {
				t.Errorf("%s: %+v, %v: want %q", path, r, err, want)
			}
		}
	}
}

// However often versions follow each other, no load has files of two of them.
func TestLoadOneVersion(t *testing.T) {
	dir := configMap(t, "1")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			r, err := config.Load(dir)
			if err != nil {
				if !strings.HasSuffix(err.Error(), "changes while it is read") {
					t.Error(err)
				}
				continue
			}
			if got := names(r); got[0][2:] != got[1][2:] {
				t.Errorf("%q", got)
			}
		}
	}()
	for version := 2; ; version++ {
		select {
		case <-done:
			return
		default:
			swap(t, dir, strconv.Itoa(version))
		}
	}
}

package rules_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/rules"
)

var update = flag.Bool("update", false, "write what is found into the file of cases")

const cases = "testdata/ratelimit.txt"

// Files of envoyproxy/ratelimit mean what they mean there, or are an error: see the file of
// cases.
func TestRateLimitFiles(t *testing.T) {
	text, err := os.ReadFile(cases)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(string(text), "\n=== ")
	got := all[:1]
	for _, part := range all[1:] {
		title, rest, _ := strings.Cut(strings.TrimSuffix(part, "\n"), "\n")
		content, want, ok := strings.Cut("\n"+rest+"\n", "\n>>>\n")
		if !ok {
			t.Fatalf("%s: without >>>", title)
		}
		want = strings.TrimSuffix(want, "\n")
		said := meaning(t, title, content, want)
		got = append(got, title+content+"\n>>>\n"+said)
		if said != want && !*update {
			t.Errorf("%s: is\n%s\nwant\n%s", title, said, want)
		}
	}
	if *update {
		if err := os.WriteFile(cases, []byte(strings.Join(got, "\n=== ")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// meaning returns a line for each descriptor that begins a line of want or, if the files are
// wrong, the errors.
func meaning(t *testing.T, title, content, want string) string {
	dir := t.TempDir()
	files := strings.Split(content, "\n+++ ")
	if len(files) > 1 {
		files = files[1:]
	} else {
		files[0] = "a.yaml" + files[0]
	}
	for _, file := range files {
		name, text, _ := strings.Cut(file, "\n")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := config.LoadWith(dir, config.RateLimitOptions{MergeDomains: strings.HasSuffix(title, " [merge]")})
	if err != nil {
		return strings.ReplaceAll(err.Error(), dir+"/", "")
	}
	set, err := rules.Compile(loaded, nil)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(want) {
		key, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, key+" "+limitOf(set, key))
	}
	return strings.Join(lines, "\n")
}

// limitOf describes the limit of a key.
func limitOf(set *rules.Set, key string) string {
	list := set.Find(key).List
	if len(list) == 0 {
		return "none"
	}
	r := list[0]
	if r.Descriptor.Unlimited {
		return "unlimited"
	}
	text := fmt.Sprintf("%d/%v", r.Rate.Count, r.Rate.Period)
	if r.Descriptor.Shadow {
		text += " shadow"
	}
	if r.Descriptor.Quota {
		text += " quota"
	}
	if r.Descriptor.Name != "" {
		text += " " + r.Descriptor.Name
	}
	if len(r.Descriptor.Replaces) > 0 {
		text += " replaces " + strings.Join(r.Descriptor.Replaces, ",")
	}
	if r.Per != config.PerRule {
		text += " in " + r.Bucket(key)
	}
	return text
}

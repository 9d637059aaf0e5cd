package filedoc_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/filedoc"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/rulecheck"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/token"
)

var update = flag.Bool("update", false, "write the tables into docs/serve-reference.md and docs/proxy-reference.md")

// The pages of reference have the tables of the code: go test ./internal/filedoc -update puts them there.
func TestDocs(t *testing.T) {
	for name, tables := range map[string]map[string][]filedoc.Field{
		"serve-reference.md": {"rules": config.Reference, "tokens": token.Reference},
		"proxy-reference.md": {"proxy": proxyrule.Reference},
	} {
		checkTables(t, docs+name, tables)
	}
}

const docs = "../../../docs/"

func checkTables(t *testing.T, name string, tables map[string][]filedoc.Field) {
	t.Helper()
	doc := read(t, name)
	for of, fields := range tables {
		begin, end := "<!-- keys of the "+of+" -->\n", "<!-- end of the "+of+" -->\n"
		before, rest, found := strings.Cut(doc, begin)
		table, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s: there is no place for the table of the %s", name, of)
		}
		if want := filedoc.Markdown(fields); table != want && !*update {
			t.Errorf("%s: the table of the %s is not that of the code: go test ./internal/filedoc -update", name, of)
		} else {
			doc = before + begin + want + end + after
		}
	}
	if *update {
		if err := os.WriteFile(name, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The files in the pages are read as they are.
func TestFiles(t *testing.T) {
	for name, files := range map[string]struct {
		begin, end string
		parse      func(name string, text []byte) error
	}{
		"serve.md": {"```yaml\ntokens:", "```\n", func(name string, text []byte) error {
			_, err := token.Parse(name, append([]byte("tokens:"), text...))
			return err
		}},
		"proxy.md": {"<<'END'\n", "\nEND\n", func(name string, text []byte) error {
			_, err := proxyrule.Parse(name, text)
			return err
		}},
	} {
		_, file, found := strings.Cut(read(t, docs+name), files.begin)
		file, _, ended := strings.Cut(file, files.end)
		if !found || !ended {
			t.Errorf("%s: there is no file", name)
		} else if err := files.parse(name, []byte(file)); err != nil {
			t.Error(err)
		}
	}
}

// Each key counts towards the total of the rules in docs/serve.md, beside its own rule.
func TestTotal(t *testing.T) {
	_, rules, found := strings.Cut(read(t, docs+"serve.md"), "```yaml\napply:")
	rules, _, ended := strings.Cut(rules, "```\n")
	if !found || !ended {
		t.Fatal("there are no rules")
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("apply:"+rules), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := rulecheck.Load(file, server.Config{Memory: 64 << 20}, config.RateLimitOptions{}, []string{"login:42", "reports", "invoice:7", "other"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range report.Keys {
		var names []string
		for _, r := range k.Rules {
			names = append(names, r.Name)
		}
		got = append(got, k.Key+": "+strings.Join(names, " + "))
	}
	want := []string{"login:42: logins + total", "reports: reports + total", "invoice:7: calendar + total", "other: total"}
	if !slices.Equal(got, want) || len(report.Warnings) > 0 {
		t.Errorf("%q, warnings %q: want %q", got, report.Warnings, want)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

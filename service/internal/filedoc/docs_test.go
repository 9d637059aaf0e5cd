package filedoc_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/pagetest"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/filedoc"
	"github.com/weir-go/weir/service/internal/filedoc/filedoctest"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/rulecheck"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/token"
)

var update = flag.Bool("update", false, "write the tables into docs/serve-reference.md and docs/proxy-reference.md, and the files of schema")

const docs = "../../../docs/"

// The pages of reference have the tables of the code.
func TestReferences(t *testing.T) {
	for _, table := range []struct {
		page, part string
		fields     []filedoc.Field
	}{
		{"serve-reference.md", "rules", config.Reference},
		{"serve-reference.md", "tokens", token.Reference},
		{"proxy-reference.md", "rules", proxyrule.Reference},
	} {
		pagetest.Keep(t, docs+table.page, table.part, filedoc.Markdown(table.fields), *update)
	}
}

const root = "../../.."

// Editors read schemas that the code makes.
func TestPublishedSchemas(t *testing.T) {
	filedoctest.Published(t, root, "rules.schema.json", config.Schema(), *update, named(t, "rules.yaml")...)
	filedoctest.Published(t, root, "proxy.schema.json", proxyrule.Schema(), *update, named(t, "proxy.yaml")...)
	filedoctest.Published(t, root, "tokens.schema.json", token.Schema(), *update)
}

// The reader and the schema refuse the same files of tokens.
func TestTokens(t *testing.T) {
	schema := filedoctest.Compile(t, token.Schema())
	for text, right := range map[string]bool{
		"tokens: []": true,
		"tokens: [{name: a, token: a-secret-of-16-bytes, keys: ['user:*'], allow: [lease]}]": true,
		"tokens: [{name: a, sha256: " + strings.Repeat("0a", 32) + "}]":                      true,
		"{}":                  false,
		"tokens: [{name: a}]": false,
		"tokens: [{token: a-secret-of-16-bytes}]":                                                    false,
		"tokens: [{name: a, token: a-secret-of-16-bytes, sha256: " + strings.Repeat("0a", 32) + "}]": false,
		"tokens: [{name: a, tokens: a-secret-of-16-bytes}]":                                          false,
	} {
		if _, err := token.Parse("tokens.yaml", []byte(text)); (err == nil) != right {
			t.Errorf("%s: read: %v: want %v", text, err, right)
		}
		if err := schema.Check(t, text); (err == nil) != right {
			t.Errorf("%s: schema: %v: want %v", text, err, right)
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
		"coming-from-servers.md": {"```yaml\nrules:", "```\n", func(name string, text []byte) error {
			_, err := proxyrule.Parse(name, append([]byte("rules:"), text...))
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

// named returns the files of a name that users start from; those of deploy/kubernetes are manifests.
func named(t *testing.T, name string) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{"deploy", "deploy/*", "examples/*"} {
		found, err := filepath.Glob(filepath.Join(root, dir, name))
		testrig.Must(t, err)
		for _, file := range found {
			if filepath.Base(filepath.Dir(file)) != "kubernetes" {
				files = append(files, strings.TrimPrefix(file, root+"/"))
			}
		}
	}
	if len(files) == 0 {
		t.Fatalf("there is no %s", name)
	}
	return files
}

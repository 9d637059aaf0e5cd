package filedoc_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/filedoc"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/server/token"
)

var update = flag.Bool("update", false, "write the tables into docs/serve.md and docs/proxy.md")

// The docs have the tables of the code: go test ./internal/filedoc -update puts them there.
func TestDocs(t *testing.T) {
	for name, tables := range map[string]map[string][]filedoc.Field{
		"serve.md": {"rules": config.Reference, "tokens": token.Reference},
		"proxy.md": {"proxy": proxyrule.Reference},
	} {
		checkDoc(t, "../../../docs/"+name, tables)
	}
}

func checkDoc(t *testing.T, name string, tables map[string][]filedoc.Field) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
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
	for _, block := range regexp.MustCompile("(?s)```yaml\n(tokens:.*?)```").FindAllStringSubmatch(doc, -1) {
		if _, err := token.Parse(name, []byte(block[1])); err != nil {
			t.Error(err)
		}
	}
	for _, block := range regexp.MustCompile("(?s)<<'END'\n(.*?)\nEND\n").FindAllStringSubmatch(doc, -1) {
		if _, err := proxyrule.Parse(name, []byte(block[1])); err != nil {
			t.Error(err)
		}
	}
	if *update {
		if err := os.WriteFile(name, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

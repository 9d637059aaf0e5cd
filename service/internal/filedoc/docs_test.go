package filedoc_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/filedoc"
	"github.com/weir-go/weir/service/internal/server/token"
)

var update = flag.Bool("update", false, "write the tables into docs/serve.md")

// docs/serve.md has the tables of the code: go test -update ./internal/filedoc puts them there.
func TestDocs(t *testing.T) {
	const name = "../../../docs/serve.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for of, fields := range map[string][]filedoc.Field{"rules": config.Reference, "tokens": token.Reference} {
		begin, end := "<!-- keys of the "+of+" -->\n", "<!-- end of the "+of+" -->\n"
		before, rest, found := strings.Cut(doc, begin)
		table, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s: there is no place for the table of the %s", name, of)
		}
		if want := filedoc.Markdown(fields); table != want && !*update {
			t.Errorf("%s: the table of the %s is not that of the code: go test -update ./internal/filedoc", name, of)
		} else {
			doc = before + begin + want + end + after
		}
	}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(tokens:.*?)```").FindAllStringSubmatch(doc, -1) {
		if _, err := token.Parse(name, []byte(block[1])); err != nil {
			t.Error(err)
		}
	}
	if *update {
		if err := os.WriteFile(name, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

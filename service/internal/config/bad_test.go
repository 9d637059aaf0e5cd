package config_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/config"
)

var update = flag.Bool("update", false, "write what is said into testdata")

const badFiles = "testdata/bad.txt"

// What is wrong with a file is said with its place, and what would be right.
func TestBadFiles(t *testing.T) {
	text, err := os.ReadFile(badFiles)
	testrig.Must(t, err)
	about, files, _ := strings.Cut(string(text), "=== ")
	got := []string{about[:len(about)-1]}
	for file := range strings.SplitSeq(files, "\n=== ") {
		title, rest, _ := strings.Cut(file, "\n")
		content, want, ok := strings.Cut("\n"+rest, "\n>>>")
		if !ok {
			t.Fatalf("%s: without >>>", title)
		}
		content, want = strings.TrimPrefix(content+"\n", "\n"), strings.TrimSpace(want)
		rule, name, named := strings.Cut(strings.TrimSuffix(title, "]"), " [")
		if !named {
			name = "rules.yaml"
		}
		_, err := config.Parse(name, []byte(content))
		said := "nothing"
		if err != nil {
			said = err.Error()
		}
		got = append(got, title+"\n"+content+">>>\n"+said)
		t.Run(rule, func(t *testing.T) {
			if said != want && !*update {
				t.Errorf("said:\n%s\nwant:\n%s", said, want)
			}
		})
	}
	if *update {
		testrig.Must(t, os.WriteFile(badFiles, []byte(strings.Join(got, "\n=== ")+"\n"), 0o644))
	}
}

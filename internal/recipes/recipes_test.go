// Package recipes tests the programs of README.
package recipes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var block = regexp.MustCompile("(?s)```go\n(.*?)```")

// The programs of README are complete: go vet takes them as they are printed, and those
// without a server run.
func TestPrograms(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 4 {
		t.Fatalf("%d programs", len(blocks))
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	dir := t.TempDir()
	for i, b := range blocks {
		file := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(file, []byte(b[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(here, fmt.Sprint(i), "main.go")] = file // in this module, without a file in it
	}
	text, err = json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(at, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, b := range blocks {
		do := "run"
		if strings.Contains(b[1], "ListenAndServe") {
			do = "build"
		}
		t.Run(fmt.Sprintf("%d, %s", i+1, do), func(t *testing.T) {
			args := []string{do, "-overlay", at}
			if do == "build" {
				args = append(args, "-o", filepath.Join(dir, fmt.Sprint(i)))
			}
			if out, err := exec.Command("go", append(args, "./"+fmt.Sprint(i))...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s\n%s", err, out, b[1])
			}
			if formatted, err := exec.Command("gofmt", "-l", overlay.Replace[filepath.Join(here, fmt.Sprint(i), "main.go")]).CombinedOutput(); err != nil || len(formatted) > 0 {
				t.Errorf("gofmt: %v %s", err, formatted)
			}
		})
	}
}

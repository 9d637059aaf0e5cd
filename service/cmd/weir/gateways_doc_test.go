//go:build !race

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// docs/gateways.md has the files of deploy/gateways as they are.
func TestGatewaysDoc(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/gateways.md")
	fatal(t, err)
	files, err := filepath.Glob("../../../deploy/gateways/*")
	fatal(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		fatal(t, err)
		if !strings.Contains(string(doc), "\n"+string(text)+"```\n") {
			t.Errorf("docs/gateways.md does not have %s as it is", filepath.Base(file))
		}
	}
	if len(files) != 5 {
		t.Errorf("%d files: want 5", len(files))
	}
}

package leasemodel

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The functions that transitions are named after exist.
func TestNames(t *testing.T) {
	machine, err := os.ReadFile("machine.go")
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]string{"ring": "ring", "lease.Registry": "server/lease", "Keeper": "server/snapshot"}
	declared := map[string]string{}
	for of, dir := range dirs {
		files, err := filepath.Glob(filepath.Join("../../../internal", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			declared[of] += string(text)
		}
	}
	texts := bytes.Join(regexp.MustCompile(`"[^"\n]*"`).FindAll(machine, -1), nil)
	names := regexp.MustCompile(`\b(ring|lease\.Registry|Keeper)\.([A-Za-z]+)`).FindAllSubmatch(texts, -1)
	for _, m := range names {
		of, name := string(m[1]), string(m[2])
		if !strings.Contains(declared[of], ") "+name+"(") && !strings.Contains(declared[of], "func "+name+"(") {
			t.Errorf("%s has no function %s", of, name)
		}
	}
	if len(names) < 15 {
		t.Errorf("%d names", len(names))
	}
}

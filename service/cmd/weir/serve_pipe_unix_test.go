//go:build unix

package main

import (
	"os"
	"syscall"
	"testing"
)

// A named pipe in place of a file does not block reloads.
func TestServePipe(t *testing.T) {
	rules := file(t, "rules.yaml", `rules: [{name: one, glob: "*", rate: 100/h}]`)
	s := serving(t, "--rules", rules, "--watch-interval", "1h")
	fatal(t, os.Remove(rules))
	fatal(t, syscall.Mkfifo(rules, 0o600))
	if a := s.reload(); a.status != 422 {
		t.Errorf("%v: want 422", a)
	}
	fatal(t, os.Remove(rules))
	fatal(t, os.WriteFile(rules, []byte(`rules: [{name: one, glob: "*", rate: 200/h}]`), 0o600))
	if a := s.reload(); a.status != 200 {
		t.Errorf("%v: want 200", a)
	}
	s.end()
}

package weir_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/weir-go/weir"
)

// Vet reports a copied Permit, and not one that moves.
func TestVetReportsCopies(t *testing.T) {
	out, err := exec.Command("go", "vet", "./testdata/copies").CombinedOutput()
	if err == nil || strings.Count(string(out), "copies lock value") != 1 || !strings.Contains(string(out), "copies.go:7:") {
		t.Errorf("go vet: %v\n%s\nwant a report of line 7 alone", err, out)
	}
}

// After Move, the units come back once, by the new Permit.
func TestMove(t *testing.T) {
	ls, notes := diaries("a")
	p, err := ls[0].Acquire(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	q := p.Move()
	p.Use(1)
	p.Release(weir.Dropped)
	q.Use(2)
	q.Release(weir.Success)
	var zero weir.Permit
	none := zero.Move()
	none.Release(weir.Success)
	expect(t, notes, "a admit 3", "a 3 becomes 2", "a 2 back, success")
}

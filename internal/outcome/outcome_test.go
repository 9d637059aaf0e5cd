package outcome_test

import (
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// Package weir has the names.
func TestNames(t *testing.T) {
	names := map[weir.Outcome]string{
		weir.Ignored: "ignored", weir.Success: "success", weir.Dropped: "dropped",
		outcome.TimedOut: "timed_out", outcome.Left: "left", outcome.Late: "late", outcome.Gone: "gone",
	}
	if len(names) != int(outcome.Count) {
		t.Errorf("%d outcomes: want %d", outcome.Count, len(names))
	}
	for o, want := range names {
		if o.String() != want {
			t.Errorf("outcome %d: %s: want %s", uint8(o), o, want)
		}
		if plain := outcome.Plain(o); plain > weir.Dropped || plain != o && (o <= weir.Dropped || (plain == weir.Dropped) != (o != outcome.Left && o != outcome.Gone)) {
			t.Errorf("%v is a variant of %v", o, plain)
		}
		if got, want := outcome.Abandoned(o), o == outcome.TimedOut || o == outcome.Left; got != want {
			t.Errorf("%v: abandoned %v", o, got)
		}
	}
	if o := outcome.Plain(200); o != weir.Ignored {
		t.Errorf("an unknown outcome is %v: want ignored", o)
	}
}

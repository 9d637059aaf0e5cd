package recording

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// random returns a record that a file can hold exactly.
func random(rng *rand.Rand) Record {
	span := func() time.Duration { return time.Duration(rng.Uint32()) << tick }
	r := Record{
		Intended: time.Duration(rng.Int64()/2) - time.Hour, Wait: span(), Inflight: rng.IntN(1 << 16),
		Class: uint16(rng.Uint32()), Tenant: uint16(rng.Uint32()), Outcome: Outcome(rng.Uint32()), Origin: uint8(rng.Uint32()),
	}
	r.Start = r.Intended + span()
	r.End = r.Start + span()
	if rng.IntN(2) == 0 {
		r.Deadline = r.Intended + span() + 1<<tick
	}
	return r
}

func TestARecordSurvives32Bytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		want := random(rng)
		var p packed
		if p.pack(&want); p.record() != want {
			t.Fatalf("%+v became %+v", want, p.record())
		}
	}
}

func TestWhatARecordCannotHold(t *testing.T) {
	for _, tt := range []struct {
		rule     string
		in, want Record
	}{
		{"times are rounded down", Record{Start: 1000, End: 2255}, Record{Start: 896, End: 896 + 1280 - 128}},
		{"a time is at most Longest", Record{End: time.Hour, Wait: time.Hour}, Record{End: Longest, Wait: Longest}},
		{"time does not run backwards", Record{Intended: 500, Start: 400, End: 300}, Record{Intended: 500, Start: 500, End: 500}},
		{"a deadline in the past is one", Record{Intended: 500, Deadline: 400}, Record{Intended: 500, Start: 500, End: 500, Deadline: 628}},
		{"units in flight", Record{Inflight: 70_000}, Record{Inflight: 65_535}},
		{"units below zero", Record{Inflight: -1}, Record{}},
	} {
		var p packed
		if p.pack(&tt.in); p.record() != tt.want {
			t.Errorf("%s: %+v: want %+v", tt.rule, p.record(), tt.want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	for o := range outcome.Count {
		got := Ended(o)
		if got.Outcome() != o || !got.Worked() || got.Rejected() || got.Reason() != 0 || got.String() != o.String() || got.Success() != (o == weir.Success) {
			t.Errorf("%v: %v", o, got)
		}
	}
	for why := range weir.Recovering + 1 {
		got := Rejected(why)
		if got.Reason() != why || got.Worked() || !got.Rejected() || got.Success() || why > 0 && got.String() != why.String() {
			t.Errorf("%v: %v", why, got)
		}
	}
	for o, want := range map[Outcome]string{Cancelled: "cancelled", rejected: "rejected", 9: "unknown"} {
		if o.String() != want || o.Worked() || o.Success() || o.Outcome() != weir.Ignored {
			t.Errorf("%d: %v", o, o)
		}
	}
	if got := Ended(200); got.Outcome().String() == "" || !got.Worked() {
		t.Errorf("an outcome that does not exist: %v", got)
	}
}

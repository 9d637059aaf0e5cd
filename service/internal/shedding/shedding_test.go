package shedding

import (
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/node"
	"github.com/weir-go/weir/service/internal/server/rules"
)

func TestShedding(t *testing.T) {
	var s samples
	var allowed, over, full, refused uint64
	begins := func() bool {
		of := func(name string) *rules.Rule { return &rules.Rule{Rule: config.Rule{Name: name}} }
		return s.begins([]server.RuleStats{
			{RuleStats: node.RuleStats{Rule: of("a"), Allowed: allowed, Denied: map[weir.Reason]uint64{weir.OverRate: over, weir.QueueFull: full}}},
			{RuleStats: node.RuleStats{Rule: of("b")}, Leases: lease.Stats{Granted: 10, Refused: map[weir.Reason]uint64{weir.OverLimit: refused}}},
		})
	}
	want := func(what string, want bool) {
		t.Helper()
		if got := begins(); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	refused = 100
	want("before the first sample", false)
	want("nothing new", false)
	over += 1000
	want("a quota is no lack of capacity", false)
	full, allowed = full+2, allowed+10
	want("two requests", false)
	full, allowed = full+9, allowed+1000
	want("less than 1 %", false)
	full, allowed = full+11, allowed+1000
	want("more", true)
	full += 10
	want("goes on", false)
	for range calm {
		want("calm", false)
	}
	refused += 3
	want("leases", true)
	refused = 0
	want("the counts were reset", false)
}

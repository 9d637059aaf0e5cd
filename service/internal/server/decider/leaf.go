package decider

import (
	"math"

	"github.com/weir-go/weir/internal/leaf"
)

// A LeafExchange is an Exchange of a leaf with its upstream. Deciders that each have some
// of the keys get the same, each with the reports about its keys.
type LeafExchange struct {
	leaf.Exchange
	// Single renews only the assignments of the keys that are reported. Held is ignored then.
	Single bool
	// Keep lets the leaf keep the rate that it has while its share differs from that by less
	// than this part of it: in [0, 1). Leaves that lose tokens by a change need it.
	Keep float64
	// Tenant is the name of the leaf's token if that does not allow all keys, and empty
	// otherwise. Answer.Leaves counts the leaves of a tenant for that tenant alone. A tenant may have as
	// many leaves, and as many assignments, as are free: at most half of them.
	Tenant string
	// Unsure tells that the leaf goes on with assignments of which it does not know how large they are: of another node,
	// or of a process before this one. Report.Has has the rate that it has used of them. An Assignment with Learning asks it
	// to go on with what it has until its next report, which has AsAssigned.
	Unsure bool
	// Repeat tells that the leaf has sent no reports since the last ones, which are asked about again.
	Repeat bool
}

// AsAssigned is the Report.Has of a leaf that does not know what it has: as much as it was assigned.
const AsAssigned = math.MaxFloat64

// A LeafAnswer is the answer to a LeafExchange.
type LeafAnswer struct {
	// Answer has one Assignment for each report, in order; that for a report with Done has only
	// the key. Resync is set if the Decider needs all reports whatever Held is: see NeedsResync.
	leaf.Answer
	// Known is the number of keys of which the Decider had an assignment of the leaf before
	// the exchange, or has one after it. Answers of Deciders that each have some of the keys are added up.
	Known int
}

// NeedsResync reports whether the leaf must report all its keys, because it has
// assignments that no Decider knows.
func (a *LeafAnswer) NeedsResync(x *LeafExchange) bool {
	return !x.Single && !x.Leave && (a.Resync || x.Held > a.Known)
}

package node

import (
	"sync"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/topk"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// leaseRefusals counts the refused leases of the keys that are refused most, in memory that
// does not grow: of each of its parts, the keys that are more than one in topk.Counters.
// Refusals by rates are in knownKey, which is full: a cache line.
type leaseRefusals struct {
	parts [64]struct {
		mu     sync.Mutex // guards sketch
		sketch topk.Sketch[string]
	}
}

// count counts the outcome of a request for a lease, if it is a rejection and the key is
// remembered.
func (r *leaseRefusals) count(k rules.Found, err error) {
	if _, rejected := err.(*weir.Rejection); !rejected || k.Known == nil {
		return
	}
	part := &r.parts[k.Print%uint64(len(r.parts))]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.sketch.Add(k.Print, k.Known.Key())
}

// counts returns a lower bound of the refusals by key.
func (r *leaseRefusals) counts() map[string]uint64 {
	var all []topk.Count[string]
	for i := range r.parts {
		part := &r.parts[i]
		part.mu.Lock()
		all = part.sketch.AppendTo(all)
		part.mu.Unlock()
	}
	counts := make(map[string]uint64, len(all))
	for _, c := range all {
		counts[c.Key] = c.Count - c.Over
	}
	return counts
}

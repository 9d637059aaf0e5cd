package grpcapi

import (
	"math"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// Hits are the costs of descriptors under one rule, in requests or tokens.
type Hits struct {
	Total, Within uint64
	Near          uint64 // of Within: beyond Config.NearLimit
	Over          uint64 // beyond the limit, of rules in shadow mode too
	Shadow        uint64 // of Over: in shadow mode
}

// ruleHits counts Hits.
type ruleHits struct{ total, near, over, shadow atomic.Uint64 }

// stats count what is asked for, by rule.
type stats struct {
	near  float64
	rules sync.Map // *ruleHits by *decider.RuleRef
	made  atomic.Uint64

	mu     sync.Mutex // guards names
	names  map[string]*ruleHits
	others ruleHits
}

// maxRules bounds the rules that are counted on their own, as in package servermetric.
const maxRules = 200

// maxCached bounds the rules in the cache. When it is full, it starts afresh, without the
// rules that are gone.
const maxCached = 4096

// add counts an answer about n tokens under a limit.
func (s *stats) add(a *decider.Answer, limit, n int) {
	if n == 0 {
		return
	}
	h := s.of(a.Rule)
	h.total.Add(uint64(n))
	if !a.OK {
		h.over.Add(uint64(n))
		if d := a.Rule.Descriptor; a.Rule.Shadow() && (d == nil || d.Shadow) { // a quota may deny
			h.shadow.Add(uint64(n))
		}
		return
	}
	if over := limit - a.Remaining - int(math.Floor(float64(limit)*s.near)); over > 0 {
		h.near.Add(uint64(min(over, n)))
	}
}

// of returns the counts of a rule.
func (s *stats) of(r *decider.RuleRef) *ruleHits {
	if h, ok := s.rules.Load(r); ok {
		return h.(*ruleHits)
	}
	if s.made.Add(1)%maxCached == 0 {
		s.rules.Clear()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.names[r.Name]
	switch {
	case h != nil:
	case len(s.names) >= maxRules:
		h = &s.others
	default:
		if s.names == nil {
			s.names = map[string]*ruleHits{}
		}
		h = new(ruleHits)
		s.names[r.Name] = h
	}
	s.rules.Store(r, h)
	return h
}

func (h *ruleHits) load() Hits {
	all := Hits{Total: h.total.Load(), Near: h.near.Load(), Over: h.over.Load(), Shadow: h.shadow.Load()}
	all.Within = all.Total - min(all.Over, all.Total)
	return all
}

// Hits calls yield with the counts of each rule by its name. Rules beyond the first 200 are
// counted together, as "others".
func (a *API) Hits(yield func(rule string, h Hits)) {
	s := &a.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.names {
		yield(name, h.load())
	}
	if h := s.others.load(); h.Total > 0 {
		yield("others", h)
	}
}

// Answers calls yield with the number of answers by the name of their gRPC code; those with
// OK are OVER_LIMIT or OK.
func (a *API) Answers(yield func(code string, n uint64)) {
	over := a.over.Load()
	for code := range a.answers {
		switch n := a.answers[code].Load(); {
		case code == 0:
			yield("OVER_LIMIT", over)
			yield("OK", n-min(over, n))
		case n > 0:
			yield(codes.Code(code).String(), n)
		}
	}
}

package proxyrule

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/service/internal/routeset"
)

// Buckets holds the token buckets of a Rule, or its requests in flight. They can serve a later
// version of the rule.
type Buckets struct {
	identity string                    // what must not change for a later version
	address  keyed.Decider[netip.Addr] // nil if the key is a text
	text     keyed.Decider[string]
	set      func(*Rule) // changes the quota, or the limit
}

// identity returns the part of a rule without which its buckets have no meaning.
func (r *Rule) identity() string {
	return fmt.Sprintf("%q %v %v", r.By.String(), cmp.Or(r.Memory, DefaultMemory), r.Limit > 0)
}

// Quota returns the quota of a bucket.
func (r *Rule) Quota() gcra.Quota {
	return gcra.Per(r.Rate.Count, r.Rate.Period, cmp.Or(r.Burst, r.Rate.Count))
}

// Buckets returns old if these are the buckets of an earlier version of the rule, and new
// ones otherwise. Set follows for old ones.
func (r *Rule) Buckets(old *Buckets) *Buckets {
	if old != nil && old.identity == r.identity() {
		return old
	}
	b := &Buckets{identity: r.identity()}
	cfg := keyed.Config{Memory: int(cmp.Or(r.Memory, DefaultMemory))}
	if len(r.By) == 0 {
		cfg.Memory = keyed.MinMemory // for a single key
	}
	if r.By.onlyAddress() {
		b.address, b.set = newDecider[netip.Addr](r, cfg)
	} else {
		b.text, b.set = newDecider[string](r, cfg)
	}
	return b
}

// newDecider returns the limit of each key of a rule, and a function that changes it.
func newDecider[K comparable](r *Rule, cfg keyed.Config) (keyed.Decider[K], func(*Rule)) {
	if r.Limit > 0 {
		l, err := keyed.NewInflight[K](r.Limit, cfg)
		if err != nil {
			panic("proxyrule: " + err.Error()) // Parse has checked the memory
		}
		return l, func(r *Rule) { l.SetLimit(r.Limit) }
	}
	quota := r.Quota()
	l, err := keyed.New[K](quota, cfg)
	if err != nil {
		panic("proxyrule: " + err.Error())
	}
	return l, func(r *Rule) {
		if next := r.Quota(); next != quota {
			quota = next
			l.SetQuota(next)
		}
	}
}

// Set changes the quota, or the limit, to the one of a later version of the rule. Tokens stay, and
// so do requests in flight. It must not be called concurrently.
func (b *Buckets) Set(r *Rule) { b.set(r) }

// Rule returns the rule for a Middleware.
func (r *Rule) Rule(b *Buckets) httplimit.Rule {
	m := r.match()
	var rule httplimit.Rule
	if b.address != nil {
		rule = httplimit.PerKey(r.Name, b.address, Address)
	} else {
		rule = httplimit.PerKey(r.Name, b.text, r.By.function(m.routes))
	}
	if rule = rule.Wait(r.MaxWait); r.Mode == Shadow {
		rule = rule.Shadow()
	}
	if len(r.Routes) > 0 || len(r.Except) > 0 {
		rule = rule.When(m.matches)
	}
	return rule
}

// A ruleMatch finds the requests of a rule.
type ruleMatch struct {
	all            bool // without routes
	routes, except *routeset.Set
}

func (r *Rule) match() *ruleMatch {
	return &ruleMatch{all: len(r.Routes) == 0, routes: routeset.Of(r.Routes), except: routeset.Of(r.Except)}
}

func (m *ruleMatch) matches(r *http.Request) bool {
	if _, routed := m.routes.Match(r); !routed && !m.all {
		return false
	}
	_, excepted := m.except.Match(r)
	return !excepted
}

// ClassRoutes returns the patterns of all classes, and the index of the class of each.
func (r *Rules) ClassRoutes() (*routeset.Set, map[string]int) {
	var all []string
	classes := map[string]int{}
	for i := range r.Classes {
		for _, pattern := range r.Classes[i].Routes {
			all = append(all, pattern)
			classes[pattern] = i
		}
	}
	return routeset.Of(all), classes // Parse has checked that they do not conflict
}

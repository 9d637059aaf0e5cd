package peer

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/bytesize"
	"github.com/weir-go/weir/service/internal/config"
)

// maxRules is the number of rules after which a connection forgets their numbers, and begins with 0
// again. An answer with more rules can have numbers up to maxNumber.
const (
	maxRules  = 1 << 10
	maxNumber = 1 << 17
)

// ruleNumbers are the rules that were described to the peer. The frames of rules and the answers
// with their numbers must be written in the same order.
type ruleNumbers struct {
	numbers map[*config.Rule]uint64
	last    *config.Rule // with the number n
	n       uint64
}

// number returns the number of a rule that describe has described.
func (r *ruleNumbers) number(rule *config.Rule) uint64 {
	if rule != r.last {
		r.last, r.n = rule, r.numbers[rule]
	}
	return r.n
}

// describe numbers a rule, and reports whether it is new.
func (r *ruleNumbers) describe(rule *config.Rule) (number uint64, isNew bool) {
	if rule == r.last {
		return r.n, false
	}
	n, known := r.numbers[rule]
	if !known {
		if r.numbers == nil {
			r.numbers = map[*config.Rule]uint64{}
		}
		n = uint64(len(r.numbers))
		r.numbers[rule] = n
	}
	r.last, r.n = rule, n
	return n, !known
}

func (r *ruleNumbers) reset() {
	clear(r.numbers)
	r.last = nil
}

// knownRules are the rules that the peer has described, by their numbers.
type knownRules []*config.Rule

// A ruleText is the description of a rule in JSON. Its fields replace those of config.Rule whose
// text does not have every value.
type ruleText struct {
	*ruleFields
	Rate      rateText
	Memory    int64
	Candidate *quotaText
}

type ruleFields config.Rule

type rateText struct {
	Count  int
	Period time.Duration
}

type quotaText struct {
	Rate      rateText
	Burst     int
	Algorithm config.Algorithm
	Zone      string
}

func describeRule(r *config.Rule) ([]byte, error) {
	t := ruleText{ruleFields: (*ruleFields)(r), Rate: rateText(r.Rate), Memory: int64(r.Memory)}
	if c := r.Candidate; c != nil {
		t.Candidate = &quotaText{rateText(c.Rate), c.Burst, c.Algorithm, c.Zone}
	}
	return json.Marshal(t)
}

func readRule(text []byte) (*config.Rule, error) {
	r := new(config.Rule)
	t := ruleText{ruleFields: (*ruleFields)(r)}
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("a rule of the peer: %w", err)
	}
	r.Rate, r.Memory = config.Rate(t.Rate), bytesize.Size(t.Memory)
	if c := t.Candidate; c != nil {
		r.Candidate = &config.Quota{Rate: config.Rate(c.Rate), Burst: c.Burst, Algorithm: c.Algorithm, Zone: c.Zone}
	}
	return r, nil
}

// A resolver finds the rule of this instance for a description, or makes one. It is safe for
// concurrent use.
type resolver struct {
	own func() *config.Rules // nil without rules

	mu   sync.Mutex // guards made
	made map[string]*config.Rule
}

// resolve returns the rule in force with this description, or one that is made of it.
func (r *resolver) resolve(text []byte) (*config.Rule, error) {
	rule, err := readRule(text)
	if err != nil {
		return nil, err
	}
	if r.own != nil {
		rules := r.own()
		for i := range rules.Rules {
			if own := &rules.Rules[i]; own.Name == rule.Name {
				if same, err := describeRule(own); err == nil && string(same) == string(text) {
					return own, nil
				}
				break
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if made := r.made[string(text)]; made != nil {
		return made, nil
	}
	if r.made == nil || len(r.made) >= maxRules {
		r.made = map[string]*config.Rule{}
	}
	r.made[string(text)] = rule
	return rule, nil
}

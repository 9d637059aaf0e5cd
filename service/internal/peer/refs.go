package peer

import (
	"encoding/json"
	"fmt"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// maxRules is the number of rules after which a connection forgets their numbers, and begins with 0
// again. An answer with more rules can have numbers up to maxNumber.
const (
	maxRules  = 1 << 10
	maxNumber = 1 << 17
)

// ruleNumbers are the rules that the peer was told, by numbers that answers use. The frames of rules
// and the answers must be written in the same order.
type ruleNumbers struct {
	numbers map[*decider.RuleRef]uint64
	last    *decider.RuleRef // with the number n
	n       uint64
}

// number returns the number of a rule that add has added.
func (r *ruleNumbers) number(rule *decider.RuleRef) uint64 {
	if rule != r.last {
		r.last, r.n = rule, r.numbers[rule]
	}
	return r.n
}

// add numbers a rule, and reports whether it is new.
func (r *ruleNumbers) add(rule *decider.RuleRef) (number uint64, isNew bool) {
	if rule == r.last {
		return r.n, false
	}
	n, known := r.numbers[rule]
	if !known {
		if r.numbers == nil {
			r.numbers = map[*decider.RuleRef]uint64{}
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

// knownRules are the rules that the peer has told, by their numbers.
type knownRules []*decider.RuleRef

// readRule reads a rule in JSON.
func readRule(text []byte) (*decider.RuleRef, error) {
	r := new(decider.RuleRef)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("a rule of the peer: %w", err)
	}
	return r, complete(r)
}

// complete completes a rule of an older version, which leaves a limit out that is the count, and has
// one for windows, where it means nothing.
func complete(r *decider.RuleRef) error {
	if r == nil {
		return errInvalid
	}
	if r.Limit == 0 || r.Windows() {
		r.Limit = r.Rate.Count
	}
	return nil
}

// readJSON reads the answer to a rare request.
func readJSON(b []byte, to any) error {
	return invalid(json.Unmarshal(b, to))
}

// invalid returns the error of an answer that is not valid.
func invalid(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, errInvalid, err)
	}
	return nil
}

func readExplanation(b []byte) (x decider.Explanation, err error) {
	if err := readJSON(b, &x); err != nil {
		return x, err
	}
	for i := range x.Rules {
		if err := complete(x.Rules[i].Rule); err != nil {
			return x, invalid(err)
		}
	}
	return x, nil
}

func readSeen(b []byte) (all []decider.Seen, err error) {
	if err := readJSON(b, &all); err != nil {
		return nil, err
	}
	for i := range all {
		for _, r := range all[i].Rules {
			if err := complete(r); err != nil {
				return nil, invalid(err)
			}
		}
	}
	return all, nil
}

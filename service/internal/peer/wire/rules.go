package wire

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

// RuleNumbers are the rules that the peer was told, by numbers that answers use. The frames of rules
// and the answers must be written in the same order.
type RuleNumbers struct {
	numbers map[*decider.RuleRef]uint64
	last    *decider.RuleRef // with the number n
	n       uint64
}

// number returns the number of a rule that add has added.
func (r *RuleNumbers) number(rule *decider.RuleRef) uint64 {
	if rule != r.last {
		r.last, r.n = rule, r.numbers[rule]
	}
	return r.n
}

// add numbers a rule, and reports whether it is new.
func (r *RuleNumbers) add(rule *decider.RuleRef) (number uint64, isNew bool) {
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

func (r *RuleNumbers) reset() {
	clear(r.numbers)
	r.last = nil
}

// Tell adds frames with the rules of verdicts that the peer was not told. out must be open.
func (r *RuleNumbers) Tell(out *Writer, verdicts []decider.Verdict) {
	if len(r.numbers) >= maxRules {
		r.reset()
	}
	for i := range verdicts {
		if v := &verdicts[i]; v.Rule != nil {
			r.tellOne(out, v.Rule)
		}
		for j := range verdicts[i].Answers {
			r.tellOne(out, verdicts[i].Answers[j].Rule)
		}
	}
}

func (r *RuleNumbers) tellOne(out *Writer, rule *decider.RuleRef) {
	n, isNew := r.add(rule)
	if !isNew {
		return
	}
	text, err := json.Marshal(rule)
	if err != nil { // no rule has values that JSON does not have
		text = []byte("{}")
	}
	out.Finish(append(out.Start(n, KindRule), text...))
}

// KnownRules are the rules that the peer has told, by their numbers.
type KnownRules []*decider.RuleRef

// Learn reads a frame with a rule, which has the number of the frame.
func (r *KnownRules) Learn(f Frame) error {
	if f.ID > uint64(len(*r)) || f.ID >= maxNumber {
		return fmt.Errorf("%w: a rule with the number %d", ErrInvalid, f.ID)
	}
	rule, err := readRule(f.Payload)
	if err != nil {
		return err
	}
	if f.ID == uint64(len(*r)) {
		*r = append(*r, rule)
	} else {
		(*r)[f.ID] = rule
	}
	return nil
}

// readRule reads a rule in JSON.
func readRule(text []byte) (*decider.RuleRef, error) {
	r := new(decider.RuleRef)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("a rule of the peer: %w", err)
	}
	return r, completeRule(r)
}

// completeRule completes a rule of an older version, which leaves a limit out that is the count, and has
// one for windows, where it means nothing.
func completeRule(r *decider.RuleRef) error {
	if r == nil {
		return ErrInvalid
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
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrInvalid, err)
	}
	return nil
}

// ReadExplanation reads the answer to a request of KindExplain.
func ReadExplanation(b []byte) (x decider.Explanation, err error) {
	if err := readJSON(b, &x); err != nil {
		return x, err
	}
	for i := range x.Rules {
		if err := completeRule(x.Rules[i].Rule); err != nil {
			return x, invalid(err)
		}
	}
	return x, nil
}

// ReadSeen reads the answer to a request of KindTop.
func ReadSeen(b []byte) (all []decider.Seen, err error) {
	if err := readJSON(b, &all); err != nil {
		return nil, err
	}
	for i := range all {
		for _, r := range all[i].Rules {
			if err := completeRule(r); err != nil {
				return nil, invalid(err)
			}
		}
	}
	return all, nil
}

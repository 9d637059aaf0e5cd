package peer

import (
	"encoding/json"
	"fmt"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// The JSON of answers to rare requests. Their rules are described in full.
type (
	explanationText struct {
		decider.Explanation
		Rules []ruleStateText
	}
	ruleStateText struct {
		decider.RuleState
		Rule json.RawMessage
	}
	seenText struct {
		decider.Seen
		Rules []json.RawMessage
	}
)

func readJSON(b []byte, to any) error {
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, errInvalid, err)
	}
	return nil
}

// check returns err, or that the payload was not valid.
func (d *decoder) check(err error) error {
	if err == nil && d.failed {
		return fmt.Errorf("%w: %w", ErrUnavailable, errInvalid)
	}
	return err
}

func writeExplanation(x *decider.Explanation) (b []byte, err error) {
	t := explanationText{Explanation: *x}
	for i := range x.Rules {
		rule, err := describeRule(x.Rules[i].Rule)
		if err != nil {
			return nil, err
		}
		t.Rules = append(t.Rules, ruleStateText{x.Rules[i], rule})
	}
	return json.Marshal(t)
}

func readExplanation(b []byte, rules *resolver) (x decider.Explanation, err error) {
	var t explanationText
	if err := readJSON(b, &t); err != nil {
		return x, err
	}
	x = t.Explanation
	for _, r := range t.Rules {
		if r.RuleState.Rule, err = rules.resolve(r.Rule); err != nil {
			return x, err
		}
		x.Rules = append(x.Rules, r.RuleState)
	}
	return x, nil
}

func writeSeen(all []decider.Seen) (b []byte, err error) {
	texts := map[*config.Rule]json.RawMessage{}
	list := make([]seenText, len(all))
	for i, s := range all {
		list[i].Seen = s
		for _, r := range s.Rules {
			if texts[r] == nil {
				if texts[r], err = describeRule(r); err != nil {
					return nil, err
				}
			}
			list[i].Rules = append(list[i].Rules, texts[r])
		}
	}
	return json.Marshal(list)
}

func readSeen(b []byte, rules *resolver) (all []decider.Seen, err error) {
	var list []seenText
	if err := readJSON(b, &list); err != nil {
		return nil, err
	}
	for _, t := range list {
		s := t.Seen
		for _, text := range t.Rules {
			r, err := rules.resolve(text)
			if err != nil {
				return nil, err
			}
			s.Rules = append(s.Rules, r)
		}
		all = append(all, s)
	}
	return all, nil
}

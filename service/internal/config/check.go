package config

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-go/weir/service/internal/match"
	"github.com/weir-go/weir/service/internal/strictyaml"
)

// Bounds of fields.
const (
	maxRules   = 100_000
	maxPattern = 4096 // bytes
	maxCount   = 1e12 // of a rate, a burst, a debt
	maxQueue   = 1e6
	maxUnits   = 1e6 // of concurrency
	minPeriod  = time.Millisecond
	maxPeriod  = 10 * 365 * day
	maxTTL     = day
	minMemory  = 64 << 10
	maxMemory  = 1 << 40
)

// A FieldError describes an invalid field of Rules.
type FieldError struct {
	Field string // its path: rules[3].burst
	Value any    // nil if it is not given
	Rule  string // the condition
}

func (e *FieldError) Error() string { return "config: " + e.Field + e.what() }

func (e *FieldError) what() string {
	switch v := e.Value.(type) {
	case nil:
		return ": " + e.Rule
	case string:
		return fmt.Sprintf(" = %q: %s", strictyaml.Short(v), e.Rule)
	default:
		return fmt.Sprintf(" = %v: %s", v, e.Rule)
	}
}

// maxErrors bounds the errors of Complete.
const maxErrors = 20

// Complete checks all fields, and names the rules that have no name. The error joins
// a *FieldError for each invalid field, 20 at most; then nothing is changed.
func (r *Rules) Complete() error {
	var all []error
	r.check(func(e *FieldError) {
		if len(all) < maxErrors {
			all = append(all, e)
		}
	}, func(path string) string { return path })
	if len(all) == 0 {
		r.complete()
	}
	return errors.Join(all...)
}

// A checker reports invalid fields.
type checker struct {
	report func(*FieldError)
	place  func(path string) string // returns where a field is
}

func (c *checker) check(fine bool, field string, value any, rule string) {
	if !fine {
		c.report(&FieldError{field, value, rule})
	}
}

// within checks that a number is in a range.
func (c *checker) within(field string, n int, least, most int64) {
	c.check(int64(n) >= least && int64(n) <= most, field, n, fmt.Sprintf("must be from %d to %d", least, most))
}

// optional checks a number that may be left out.
func (c *checker) optional(field string, n *int, most int64) {
	if n != nil {
		c.within(field, *n, 0, most)
	}
}

func (r *Rules) check(report func(*FieldError), place func(path string) string) {
	c := &checker{report, place}
	c.check(r.Apply == "" || r.Apply == First || r.Apply == All, "apply", string(r.Apply), "must be first or all")
	c.check(r.Unmatched == "" || r.Unmatched == "allow" || r.Unmatched == "deny", "unmatched", r.Unmatched, "must be allow or deny")
	if len(r.Rules) > maxRules {
		c.check(false, "rules", len(r.Rules), fmt.Sprintf("there must be at most %d", maxRules))
		return
	}
	names := map[string]string{}
	for i := range r.Rules {
		rule, path := &r.Rules[i], "rules["+strconv.Itoa(i)+"]"
		c.name(path+".name", rule.Name, names)
		c.pattern(path, rule)
		if r.Merge && i > 0 {
			c.layer(path, rule)
		} else {
			c.rule(path, rule)
		}
	}
	if r.Merge {
		c.check(len(r.Rules) > 0 && r.Rules[0].Glob == "*", "rules[0].glob", nil, "must be *: it has the defaults of the others")
	}
}

// name checks a name, and adds it to those there are, with their paths.
func (c *checker) name(path, name string, names map[string]string) {
	if name == "" {
		return
	}
	c.check(named(name), path, name, `must be at most 64 printable ASCII characters, none of them " or \`)
	if first, taken := names[name]; taken {
		c.check(false, path, name, "must differ from the name at "+c.place(first))
		return
	}
	names[name] = path
}

// pattern returns the pattern of a rule, and the field it is in.
func (r *Rule) pattern() (field, text string) {
	switch {
	case r.Key != "":
		return "key", r.Key
	case r.Glob != "":
		return "glob", r.Glob
	default:
		return "regex", r.Regex
	}
}

func (c *checker) pattern(path string, r *Rule) {
	given := 0
	for _, text := range []string{r.Key, r.Glob, r.Regex} {
		if text != "" {
			given++
		}
	}
	if given != 1 {
		c.check(false, path, nil, fmt.Sprintf("must have one of key, glob and regex; has %d of them", given))
		return
	}
	field, text := r.pattern()
	c.text(path+"."+field, field, text)
}

// text checks the text of a pattern of the kind that a field has.
func (c *checker) text(path, field, text string) {
	if len(text) > maxPattern {
		c.check(false, path, text, fmt.Sprintf("must have at most %d bytes", maxPattern))
		return
	}
	kind := map[string]match.Kind{"key": match.Exact, "glob": match.Glob, "regex": match.Regex}[field]
	if _, err := match.New([]match.Pattern{{Kind: kind, Text: text}}); err != nil {
		c.check(false, path, text, errors.Unwrap(err).Error())
	}
}

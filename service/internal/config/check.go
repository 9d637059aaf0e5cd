package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weir-go/weir/service/internal/descriptor"
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
	}, func(path string) string { return path }, func(string) bool { return false })
	if len(all) == 0 {
		r.complete()
	}
	return errors.Join(all...)
}

// A checker reports invalid fields.
type checker struct {
	report func(*FieldError)
	place  func(path string) string // returns where a field is
	given  func(path string) bool   // reports whether a file has a field
}

// has reports whether a field has a value. Zero is the default, but not in a file that has
// the field.
func has[T comparable](c *checker, path string, value T) bool {
	var zero T
	return value != zero || c.given(path)
}

// orDefault returns the value of a field, or its default.
func orDefault[T comparable](c *checker, path string, value, byDefault T) T {
	if has(c, path, value) {
		return value
	}
	return byDefault
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

func (r *Rules) check(report func(*FieldError), place func(path string) string, given func(path string) bool) {
	c := &checker{report, place, given}
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
		if rule.Descriptor == nil {
			c.pattern(path, rule)
		}
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

// Pattern returns the pattern of a rule, and the field it is in.
func (r *Rule) Pattern() (field, text string) {
	switch {
	case r.Descriptor != nil:
		return "descriptor", r.Descriptor.Path
	case r.Key != "":
		return "key", r.Key
	case r.Glob != "":
		return "glob", r.Glob
	case r.Regex != "":
		return "regex", r.Regex
	default:
		return "entries", r.entriesText()
	}
}

// entriesText returns Domain and Entries as the key of a descriptor, sorted by key.
func (r *Rule) entriesText() string {
	var entries []descriptor.Entry
	for _, key := range slices.Sorted(maps.Keys(r.Entries)) {
		entries = append(entries, descriptor.Entry{Key: key, Value: r.Entries[key]})
	}
	return string(descriptor.Append(nil, cmp.Or(r.Domain, "*"), entries))
}

func (c *checker) pattern(path string, r *Rule) {
	given := 0
	for _, text := range []string{r.Key, r.Glob, r.Regex} {
		if text != "" {
			given++
		}
	}
	if r.Entries != nil {
		given++
	}
	if given != 1 {
		c.check(false, path, nil, fmt.Sprintf("must have one of key, glob, regex and entries; has %d of them", given))
		return
	}
	if r.Entries != nil {
		c.entries(path, r)
		return
	}
	c.check(!has(c, path+".domain", r.Domain), path+".domain", nil, "must be left out without entries")
	field, text := r.Pattern()
	c.text(path+"."+field, field, text)
	if field != "regex" {
		possible := text == strings.TrimSpace(text) && !strings.ContainsFunc(text, unicode.IsControl)
		c.check(possible, path+"."+field, text, "matches no key: keys have no surrounding space and no control characters")
	}
}

// entries checks a pattern of entries.
func (c *checker) entries(path string, r *Rule) {
	if has(c, path+".domain", r.Domain) {
		c.check(r.Domain != "", path+".domain", nil, "must be left out for any domain")
		c.text(path+".domain", "glob", r.Domain)
	}
	path += ".entries"
	c.check(len(r.Entries) > 0, path, nil, `must have at least one entry, such as {path: "/api/*"}`)
	if len(r.entriesText()) > maxPattern {
		c.check(false, path, nil, fmt.Sprintf("must have at most %d bytes with the domain, as domain|key=value", maxPattern))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(r.Entries)) {
		c.check(key != "", path, nil, "must not have an empty key")
		c.text(strictyaml.Join(path, key), "glob", r.Entries[key])
	}
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

// A complaint is an error about a field of a file.
type complaint struct {
	*strictyaml.File
	path string
	err  *FieldError
}

type complaints []complaint

// report reports the complaints, without those about rules that could not be read.
func (all complaints) report() {
	all = slices.DeleteFunc(all, func(c complaint) bool {
		rule, _, _ := strings.Cut(c.path, ".")
		return c.Wrong(rule)
	})
	for _, c := range all {
		c.Report(c.Where(c.path), c.path, "%s", c.err.what())
	}
}

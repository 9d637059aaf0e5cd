package cli

import (
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// A usageError reports a wrong command line.
type usageError string

func (e usageError) Error() string { return string(e) }

// Usagef returns an error that reports a wrong command line: the exit status is 2.
func Usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// checkBounds checks the flags with a bound in a tag least or most.
func checkBounds(flags []*Flag) error {
	for _, f := range flags {
		v := reflect.Indirect(f.value)
		least, most := f.tag.Get("least"), f.tag.Get("most")
		switch {
		case least == "" || !v.IsValid():
		case most == "" && !(number(v) >= bound(least)):
			return Usagef("--%s=%v: must be >= %s", f.Name, v, least)
		case most != "" && !(number(v) >= bound(least) && number(v) <= bound(most)):
			return Usagef("--%s=%v: must be in [%s, %s]", f.Name, v, least, most)
		}
	}
	return nil
}

// checkNeeds checks the flags that have no effect without another one, which a tag needs names. Accepts does not: a variable may set
// the other one.
func checkNeeds(flags []*Flag) error {
	for _, f := range flags {
		if other := f.tag.Get("needs"); other != "" && !f.isDefault() && flagged(flags, "--"+other).isDefault() {
			return Usagef("--%s needs --%s", f.Name, other)
		}
	}
	return nil
}

// isDefault reports whether a flag has its default.
func (f *Flag) isDefault() bool {
	other := &Flag{tag: f.tag, value: reflect.New(f.value.Type()).Elem()}
	if f.Default != "" {
		_ = other.Set(f.Default) // as setDefaults has
	}
	return reflect.DeepEqual(f.value.Interface(), other.value.Interface())
}

func number(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// bound reads a tag: a duration or a number.
func bound(text string) float64 {
	if d, err := time.ParseDuration(text); err == nil {
		return float64(d)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // the tag itself is wrong
	}
	return n
}

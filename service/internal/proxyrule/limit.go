package proxyrule

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/limit"
)

// A Limit bounds the requests in flight. It is a number or the name of an algorithm. The
// zero Limit is automatic (limit.NewAuto).
type Limit struct {
	name  string // of the algorithm; empty: auto
	fixed bool
	n     int
}

// FixedLimit returns a Limit of n requests, n >= 0. Zero refuses all.
func FixedLimit(n int) Limit { return Limit{fixed: true, n: n} }

// algorithms makes the algorithms by name.
var algorithms = map[string]func(limit.Config) (limit.Algorithm, error){
	"auto":      limit.NewAuto,
	"aimd":      func(cfg limit.Config) (limit.Algorithm, error) { return limit.NewAIMD(cfg, 0) },
	"vegas":     limit.NewVegas,
	"gradient2": limit.NewGradient2,
}

// LimitNames lists the algorithms.
var LimitNames = []string{"auto", "aimd", "vegas", "gradient2"}

// String returns the number, or the name of the algorithm.
func (l Limit) String() string {
	switch {
	case l.fixed:
		return strconv.Itoa(l.n)
	case l.name == "":
		return "auto"
	}
	return l.name
}

// MarshalJSON writes a number, or the name of the algorithm.
func (l Limit) MarshalJSON() ([]byte, error) {
	if l.fixed {
		return []byte(l.String()), nil
	}
	return []byte(strconv.Quote(l.String())), nil
}

// UnmarshalJSON reads a number, or the name of an algorithm.
func (l *Limit) UnmarshalJSON(data []byte) error {
	if err := l.UnmarshalText(bytes.Trim(data, `"`)); err != nil {
		return fmt.Errorf("limit = %w", err)
	}
	return nil
}

// UnmarshalText reads a number, or the name of an algorithm.
func (l *Limit) UnmarshalText(text []byte) error {
	if name := string(text); slices.Contains(LimitNames, name) {
		*l = Limit{name: strings.TrimPrefix(name, "auto")}
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q: must be %s or a whole number >= 0", text, strings.Join(LimitNames, ", "))
	}
	*l = FixedLimit(n)
	return nil
}

// Fixed reports whether the limit is a number.
func (l Limit) Fixed() bool { return l.fixed }

// Algorithm returns the algorithm that sets the limit, or an error that names the first
// invalid field of cfg.
func (l Limit) Algorithm(cfg limit.Config) (limit.Algorithm, error) {
	if l.fixed {
		return limit.Fixed(l.n), nil
	}
	return algorithms[l.String()](cfg)
}

package proxy

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/weir-go/weir/limit"
)

// A Limit bounds the requests in flight. It is a number or, as the zero Limit,
// automatic (limit.Auto).
type Limit struct {
	fixed bool
	n     int
}

// FixedLimit returns a Limit of n requests, n >= 0. Zero refuses all.
func FixedLimit(n int) Limit { return Limit{true, n} }

// String returns "auto" or the number.
func (l Limit) String() string {
	if !l.fixed {
		return "auto"
	}
	return strconv.Itoa(l.n)
}

// MarshalJSON writes a number or "auto".
func (l Limit) MarshalJSON() ([]byte, error) {
	if !l.fixed {
		return []byte(`"auto"`), nil
	}
	return []byte(l.String()), nil
}

// UnmarshalJSON reads a number or "auto".
func (l *Limit) UnmarshalJSON(data []byte) error {
	return l.UnmarshalText(bytes.Trim(data, `"`))
}

// UnmarshalText reads a number or "auto".
func (l *Limit) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*l = Limit{}
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("limit = %q: must be auto or a whole number >= 0", text)
	}
	*l = FixedLimit(n)
	return nil
}

// algorithm returns the algorithm that sets the limit. New has checked cfg.
func (l Limit) algorithm(cfg limit.Config) limit.Algorithm {
	if l.fixed {
		return limit.Fixed(l.n)
	}
	auto, err := limit.NewAuto(cfg)
	if err != nil {
		panic("proxy: " + err.Error())
	}
	return auto
}

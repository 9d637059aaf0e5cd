// Package query reads the parameters of requests to weir serve.
package query

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// A Param is a set of parameters of the query.
type Param uint16

const (
	CanWait Param = 1 << iota
	N
	Timeout
	MaxRequests
	MaxRequestsInQueue
	TTL
	Outcome
	All
	IDs
	AtMost
	IK    // that the instances of GoCC send to each other; it has no meaning here
	OfAny // whatever the query has is ignored
)

// Parameters of endpoints.
const (
	OfRate  = CanWait | N | AtMost | Timeout | MaxRequests | MaxRequestsInQueue | IK
	OfLease = CanWait | N | Timeout | TTL
)

// Params has the values of a query. A parameter without a value is not in Valued.
type Params struct {
	Given, Valued Param

	CanWait, All, IDs, AtMost bool
	N, MaxRequests, MaxQueue  int
	Timeout, TTL              time.Duration
	Outcome                   weir.Outcome
}

// paramNames are the names of parameters, in the order in which answers and documents list them.
var paramNames = []struct {
	name  string
	which Param
}{
	{"canWait", CanWait}, {"n", N}, {"atMost", AtMost}, {"ttl", TTL}, {"timeout", Timeout},
	{"maxRequests", MaxRequests}, {"maxRequestsInQueue", MaxRequestsInQueue},
	{"ik", IK}, {"outcome", Outcome}, {"all", All}, {"ids", IDs},
}

// named returns a parameter by its name, 0 if there is none.
func named(name string) Param {
	for i := range paramNames {
		if p := &paramNames[i]; p.name == name {
			return p.which
		}
	}
	return 0
}

// Names returns the names of a set of parameters.
func (p Param) Names() (list []string) {
	for _, known := range paramNames {
		if p&known.which != 0 {
			list = append(list, known.name)
		}
	}
	return list
}

// field returns a pointer to the field of a parameter.
func (p *Params) field(which Param) any {
	switch which {
	case CanWait:
		return &p.CanWait
	case N:
		return &p.N
	case Timeout:
		return &p.Timeout
	case MaxRequests:
		return &p.MaxRequests
	case MaxRequestsInQueue:
		return &p.MaxQueue
	case TTL:
		return &p.TTL
	case Outcome:
		return &p.Outcome
	case All:
		return &p.All
	case IDs:
		return &p.IDs
	}
	return &p.AtMost
}

// maxNamed bounds the part of an unknown name that an answer repeats, in bytes.
const maxNamed = 40

var errEscape = errors.New("the query has an invalid escape")

// Parse reads the parameters of a query. One that the endpoint does not have is an error, because a
// request without it may be another than its sender means. So is one that is given twice.
func (p *Params) Parse(query string, wanted Param) error {
	if wanted == OfAny {
		return nil
	}
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return errEscape
		}
		which := named(name)
		if which&wanted == 0 {
			return unknownParam(name, wanted)
		}
		if p.Given&which != 0 {
			return fmt.Errorf("%s is given twice", name)
		}
		p.Given |= which
		if value, err = url.QueryUnescape(value); err != nil {
			return errEscape
		}
		if value = strings.TrimSpace(value); value == "" || which == IK {
			continue
		}
		p.Valued |= which
		if ok, want := set(p.field(which), value); !ok || which == TTL && p.TTL == 0 {
			return fmt.Errorf("cannot read %s: it must be %s", name, want)
		}
		if which == TTL && p.TTL < time.Millisecond {
			return fmt.Errorf("ttl = %s: must be at least 1ms", value)
		}
	}
	return nil
}

// unknownParam returns the error about a parameter that an endpoint does not have.
func unknownParam(name string, wanted Param) error {
	if len(name) > maxNamed {
		name = name[:maxNamed] + "…"
	}
	if wanted == 0 {
		return fmt.Errorf("unknown parameter %q: this method of this path has none", name)
	}
	return fmt.Errorf("unknown parameter %q: this method of this path has %s", name, strings.Join(wanted.Names(), ", "))
}

// WantDuration describes the values of a duration.
const WantDuration = "a duration such as 1.5s or 200ms, or seconds"

// set sets the field of a parameter. want describes its values.
func set(field any, value string) (ok bool, want string) {
	switch field := field.(type) {
	case *bool:
		b, err := strconv.ParseBool(value)
		*field = b
		return err == nil, "true or false"
	case *int:
		n, err := strconv.ParseInt(value, 10, 32)
		*field = int(n)
		return err == nil && n >= 0, "a whole number from 0 to 2147483647"
	case *time.Duration:
		*field, ok = Duration(value)
		return ok, WantDuration
	case *weir.Outcome:
		for o := range outcome.Count {
			if o.String() == value {
				*field, ok = o, true
			}
		}
	}
	return ok, "success, dropped, ignored, timed_out, left, late or gone"
}

// Duration reads a Go duration, or seconds.
func Duration(value string) (time.Duration, bool) {
	if strings.TrimRight(value, "0123456789.") != value {
		value += "s"
	}
	d, err := time.ParseDuration(value)
	return d, err == nil && d >= 0
}

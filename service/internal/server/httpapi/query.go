package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// A param is a set of parameters of the query.
type param uint16

const (
	paramCanWait param = 1 << iota
	paramN
	paramTimeout
	paramMaxRequests
	paramMaxRequestsInQueue
	paramTTL
	paramOutcome
	paramAll
	paramIDs
)

// Parameters of endpoints.
const (
	ofRate  = paramCanWait | paramN | paramTimeout | paramMaxRequests | paramMaxRequestsInQueue
	ofLease = paramCanWait | paramN | paramTimeout | paramTTL
)

// named returns a parameter by its name, 0 if there is no such.
func named(name string) param {
	switch name {
	case "canWait":
		return paramCanWait
	case "n":
		return paramN
	case "timeout":
		return paramTimeout
	case "maxRequests":
		return paramMaxRequests
	case "maxRequestsInQueue":
		return paramMaxRequestsInQueue
	case "ttl":
		return paramTTL
	case "outcome":
		return paramOutcome
	case "all":
		return paramAll
	case "ids":
		return paramIDs
	}
	return 0
}

// params has the values of a query. A parameter without a value is not in valued.
type params struct {
	given, valued param

	canWait, all, ids        bool
	n, maxRequests, maxQueue int
	timeout, ttl             time.Duration
	outcome                  weir.Outcome
}

// Bounds on a query.
const (
	maxParams = 32
	maxN      = math.MaxInt32
)

// parse reads the wanted parameters of a query. Others are ignored, as GoCC ignores
// them. A parameter that is given twice is an error because it is ambiguous.
func (p *params) parse(query string, wanted param) *fault {
	for n := 0; query != ""; n++ {
		if n == maxParams {
			return manyParams
		}
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		name, err := unescaped(name)
		if err != nil {
			return badEscape
		}
		which := named(name) & wanted
		if which == 0 {
			continue
		}
		if p.given&which != 0 {
			return &fault{status: http.StatusBadRequest, text: name + " is given twice"}
		}
		p.given |= which
		if value, err = unescaped(value); err != nil {
			return badEscape
		}
		if value = strings.TrimSpace(value); value == "" {
			continue
		}
		p.valued |= which
		if want := p.set(which, value); want != "" {
			return &fault{status: http.StatusBadRequest, text: fmt.Sprintf("cannot read %s: it must be %s", name, want)}
		}
	}
	return nil
}

// unescaped decodes a part of a query.
func unescaped(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s, nil
	}
	return url.QueryUnescape(s)
}

// set sets a parameter, or returns what its value must be.
func (p *params) set(which param, value string) (want string) {
	ok := true
	switch which {
	case paramCanWait:
		p.canWait, ok = boolean(value)
	case paramAll:
		p.all, ok = boolean(value)
	case paramIDs:
		p.ids, ok = boolean(value)
	case paramN:
		p.n, ok = whole(value)
	case paramMaxRequests:
		p.maxRequests, ok = whole(value)
	case paramMaxRequestsInQueue:
		p.maxQueue, ok = whole(value)
	case paramTimeout:
		p.timeout, ok = duration(value)
	case paramTTL:
		p.ttl, ok = duration(value)
		ok = ok && p.ttl > 0
	case paramOutcome:
		p.outcome, ok = outcomes[value]
	}
	if ok {
		return ""
	}
	return wants(which)
}

// wants describes the values of a parameter.
func wants(which param) string {
	switch which {
	case paramCanWait, paramAll, paramIDs:
		return "true or false"
	case paramTimeout, paramTTL:
		return "a duration such as 1.5s or 200ms, or seconds"
	case paramOutcome:
		return "success, dropped, ignored, timed_out, left or late"
	}
	return "a whole number from 0 to " + strconv.Itoa(maxN)
}

func boolean(value string) (b, ok bool) {
	b, err := strconv.ParseBool(value)
	return b, err == nil
}

func whole(value string) (n int, ok bool) {
	n, err := strconv.Atoi(value)
	return n, err == nil && n >= 0 && n <= maxN
}

// duration reads a Go duration, or seconds.
func duration(value string) (time.Duration, bool) {
	if last := value[len(value)-1]; last >= '0' && last <= '9' || last == '.' {
		value += "s"
	}
	d, err := time.ParseDuration(value)
	return d, err == nil && d >= 0
}

// outcomes are the values of the parameter outcome.
var outcomes = map[string]weir.Outcome{
	"success": weir.Success, "dropped": weir.Dropped, "ignored": weir.Ignored,
	"timed_out": outcome.TimedOut, "left": outcome.Left, "late": outcome.Late,
}

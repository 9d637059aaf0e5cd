package proxyrule

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/caller"
)

// A Reader reads the priority, the tenant and the deadline of requests, as the rules say.
// It is safe for concurrent use.
type Reader struct {
	rules  *Rules
	trust  caller.Trusted
	levels map[string]Level // by the value of the header, in lower case
	tenant func(*http.Request) (string, bool)
}

// Reader returns a Reader.
func (r *Rules) Reader() *Reader {
	x := &Reader{rules: r}
	if p := r.Priority; p != nil {
		x.trust, x.levels = p.Trust.Trusted(), map[string]Level{}
		for value, level := range p.Levels {
			x.levels[strings.ToLower(value)] = level
		}
		if p.Levels == nil {
			for i, name := range LevelNames {
				x.levels[name] = Level(int(weir.Sheddable) + i)
			}
		}
	}
	if t := r.Tenants; t != nil {
		routes, _ := r.ClassRoutes()
		x.tenant = t.By.function(routes)
	}
	return x
}

// Priority returns the priority of a request of a class with a priority. The header can
// raise it only for a trusted client.
func (x *Reader) Priority(r *http.Request, of weir.Priority) weir.Priority {
	if x.rules.Priority == nil {
		return of
	}
	value := r.Header.Get(x.rules.Priority.Header)
	if value == "" {
		return of
	}
	level, known := x.levels[strings.ToLower(strings.TrimSpace(value))]
	if !known {
		return of
	}
	p := weir.Priority(level)
	if client, ok := caller.ParsePeer(r.RemoteAddr); p > of && !(ok && x.trust.Contains(client)) {
		return of
	}
	return p
}

// Tenant returns the tenant of a request; empty if there are no tenants, or if the request
// has no key.
func (x *Reader) Tenant(r *http.Request) string {
	if x.tenant == nil {
		return ""
	}
	tenant, _ := x.tenant(r)
	return tenant
}

// Deadline returns how long a client waits for its answer, as its header says.
func (x *Reader) Deadline(r *http.Request) (time.Duration, bool) {
	d := x.rules.Deadline
	if d == nil {
		return 0, false
	}
	value := r.Header.Get(d.Header)
	if value == "" {
		return 0, false
	}
	read := parseTime
	if strings.EqualFold(d.Header, "grpc-timeout") {
		read = parseGRPC
	}
	wait, ok := read(strings.TrimSpace(value))
	if !ok {
		return 0, false
	}
	if d.Max > 0 {
		wait = min(wait, d.Max)
	}
	return wait, true
}

// parseTime reads milliseconds, or a number with a unit as Go writes durations.
func parseTime(s string) (time.Duration, bool) {
	if len(s) > 32 {
		return 0, false
	}
	if ms, err := strconv.ParseUint(s, 10, 32); err == nil {
		return time.Duration(ms) * time.Millisecond, true
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}

// grpcUnits are the units of grpc-timeout.
var grpcUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': 1,
}

// parseGRPC reads 1 to 8 digits and a unit.
func parseGRPC(s string) (time.Duration, bool) {
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	unit := grpcUnits[s[len(s)-1]]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if unit == 0 || err != nil {
		return 0, false
	}
	if n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64, true
	}
	return time.Duration(n) * unit, true
}

// Fairness returns the weights of tenants by the key that Reader.Tenant returns, and a text
// that is equal for equal weights; empty texts if there are no tenants.
func (r *Rules) Fairness() (text string, weights map[string]int) {
	t := r.Tenants
	if t == nil {
		return "", nil
	}
	weights = map[string]int{}
	for name, n := range t.Weights {
		for i := range t.By {
			weights[t.By.keyOf(i, name)] = n
		}
	}
	var b strings.Builder
	b.WriteString(t.By.String())
	for _, key := range slices.Sorted(maps.Keys(weights)) {
		fmt.Fprintf(&b, " %q=%d", key, weights[key])
	}
	return b.String(), weights
}

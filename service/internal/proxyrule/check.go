package proxyrule

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/service/internal/bytesize"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/routeset"
	"github.com/weir-go/weir/service/internal/strictyaml"
)

// Bounds of fields.
const (
	MaxRules    = 100
	MaxClasses  = 100
	maxPatterns = 1000 // of a rule or a class
	maxPattern  = 4096 // bytes
	maxName     = 64
	maxTokens   = 1e12
	maxUnits    = 1e6
	maxQueue    = 1e6
	minPeriod   = time.Millisecond
	maxPeriod   = 10 * 365 * 24 * time.Hour
	maxTime     = 24 * time.Hour
	maxBytesOf  = 1 << 40 // a body, a cache
	maxWeights  = 10_000
	maxWeight   = 1000
	maxTrust    = 1000
	maxLevels   = 100
	maxSources  = 10
)

// A checker reports errors of a file, with their places.
type checker struct {
	*strictyaml.File
	*Rules
}

// check reports an error about a field unless it is right. The value is not shown if it is
// nil.
func (c *checker) check(right bool, path string, value any, rule string, args ...any) {
	if right || c.Wrong(path) {
		return
	}
	rule = fmt.Sprintf(rule, args...)
	switch v := value.(type) {
	case nil:
		c.Report(c.Where(path), path, ": %s", rule)
	case string:
		c.Report(c.Where(path), path, " = %q: %s", strictyaml.Short(v), rule)
	default:
		c.Report(c.Where(path), path, " = %v: %s", v, rule)
	}
}

func (c *checker) rules() {
	c.mode("mode", c.Mode)
	if p := c.MaxPressure; p != nil {
		c.check(*p >= 0 && *p < 1, "max_pressure", *p, "must be >= 0 and < 1: a share of the time; 0: no bound")
	}
	if p := c.HealthPath; p != nil {
		c.check(*p == "" || ValidHealthPath(*p), "health_path", *p, "must be a path that begins with /, or empty: no checks")
	}
	if d := c.HealthInterval; d != nil {
		c.check(*d >= MinHealthInterval && *d <= maxTime, "health_interval", *d, "must be from %v to %v", MinHealthInterval, maxTime)
	}
	known := []Fields{"", FieldsDraft, FieldsDelta, FieldsUnix, FieldsBoth, FieldsNext, FieldsNone}
	c.check(slices.Contains(known, c.Rules.Fields), "fields", string(c.Rules.Fields), "must be draft, x, x_unix, draft_x, draft_next or none")
	c.check(len(c.Rules.Rules) <= MaxRules, "rules", len(c.Rules.Rules), "must be at most %d", MaxRules)
	c.check(len(c.Classes) <= MaxClasses, "classes", len(c.Classes), "must be at most %d", MaxClasses)
	names := map[string]string{}
	for i := range c.Rules.Rules {
		c.rule(fmt.Sprintf("rules[%d]", i), &c.Rules.Rules[i], names)
	}
	c.classes()
	if t := c.Total; t != nil {
		c.check(t.Limit != nil, "total.limit", nil, "must be given: a number, %s", strings.Join(LimitNames, ", "))
		c.concurrency("total", t)
	}
	if p := c.Priority; p != nil {
		c.priority(p)
	}
	if t := c.Tenants; t != nil {
		c.tenants(t)
	}
	if d := c.Deadline; d != nil {
		c.header("deadline.header", d.Header)
		c.within("deadline.max", d.Max, 0)
	}
}

// MinHealthInterval is the shortest time between two health checks of an origin.
const MinHealthInterval = 100 * time.Millisecond

// ValidHealthPath reports whether a text is the path of a request, and may have a query.
func ValidHealthPath(text string) bool {
	u, err := url.ParseRequestURI(text)
	return err == nil && strings.HasPrefix(text, "/") && u.Host == "" && u.Fragment == "" && !strings.Contains(text, "#")
}

func (c *checker) mode(path string, m Mode) {
	c.check(m == "" || m == Enforce || m == Shadow, path, string(m), "must be enforce or shadow")
}

// name checks a name; names has the path of each earlier one.
func (c *checker) name(path, name string, names map[string]string) {
	c.check(c.HasValue(path), path, nil, "must be given")
	valid := name != "" && len(name) <= maxName &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
	c.check(!c.HasValue(path) || valid, path, name, `must be 1 to %d printable ASCII characters without " and \`, maxName)
	if before := names[name]; before != "" {
		c.check(false, path, name, "is also the name at %s", c.Place(before))
	}
	names[name] = path
}

func (c *checker) rule(path string, r *Rule, names map[string]string) {
	c.name(path+".name", r.Name, names)
	c.mode(path+".mode", r.Mode)
	c.keys(path+".by", r.By, r.Routes)
	if c.HasValue(path + ".limit") {
		c.check(r.Limit >= 1 && r.Limit <= maxUnits, path+".limit", r.Limit, "must be from 1 to %d", int64(maxUnits))
		for _, field := range []string{".rate", ".burst", ".max_wait"} {
			c.check(!c.HasValue(path+field), path+field, nil, "must be left out with limit: a rule has a rate, or a limit of requests in flight")
		}
	} else if c.check(c.HasValue(path+".rate"), path+".rate", nil, "must be given, such as 100/m, or limit: 10"); c.HasValue(path + ".rate") {
		c.check(int64(r.Rate.Count) <= maxTokens, path+".rate", r.Rate, "must have a count of at most %d", int64(maxTokens))
		c.check(r.Rate.Period != config.Month, path+".rate", r.Rate, "must have another period: months differ in length")
		c.check(r.Rate.Period >= minPeriod && r.Rate.Period <= maxPeriod, path+".rate", r.Rate, "must have a period from %v to 10 years", minPeriod)
	}
	if c.HasValue(path + ".burst") {
		c.check(r.Burst >= 1 && int64(r.Burst) <= maxTokens, path+".burst", r.Burst, "must be from 1 to %d", int64(maxTokens))
	}
	c.within(path+".max_wait", r.MaxWait, 0)
	if c.HasValue(path + ".memory") {
		c.check(len(r.By) > 0, path+".memory", nil, "must be left out without by: the rule has a single bucket")
		c.check(r.Memory >= keyed.MinMemory && int64(r.Memory) <= maxBytesOf, path+".memory", r.Memory, "must be from %v to %v",
			bytesize.Size(keyed.MinMemory), bytesize.Size(maxBytesOf))
	}
	c.patterns(path+".routes", r.Routes, union())
	c.patterns(path+".except", r.Except, union())
	c.check(!c.HasValue(path+".routes") || len(r.Routes) > 0, path+".routes", nil, "must have a pattern, or be left out for all requests")
	covered := len(r.Routes) > 0 && !slices.ContainsFunc(r.Routes, func(p string) bool { return !slices.Contains(r.Except, p) })
	c.check(!covered && !slices.Contains(r.Except, "/"), path+".except", nil, "must leave a request that the rule matches; it matches none")
}

// keys checks sources of a key.
func (c *checker) keys(path string, ks Keys, routes Texts) {
	c.check(!c.HasValue(path) || len(ks) > 0, path, nil, "must have a source, such as address, or be left out")
	c.check(len(ks) <= maxSources, path, len(ks), "must be at most %d sources", maxSources)
	for i, k := range ks {
		byRoute := slices.ContainsFunc(k.parts, func(p part) bool { return p.kind == "route" })
		c.check(!byRoute || len(routes) > 0, path, k.String(), "needs routes: without them, all requests have the same route")
		c.check(!slices.ContainsFunc(ks[:i], func(before Key) bool { return before.String() == k.String() }), path, k.String(), "must not be there twice")
	}
}

// patterns checks patterns, and adds them by a function.
func (c *checker) patterns(path string, list Texts, add func(pattern, at string) error) {
	c.check(len(list) <= maxPatterns, path, len(list), "must be at most %d patterns", maxPatterns)
	for i, pattern := range list[:min(len(list), maxPatterns)] {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !c.HasValue(at) {
			at = path // not a list
		}
		if len(pattern) > maxPattern {
			c.check(false, at, pattern, "must have at most %d bytes", maxPattern)
		} else if slices.Contains(list[:i], pattern) {
			c.check(false, at, pattern, "must not be there twice")
		} else if why := routeset.Never(pattern); why != "" {
			c.check(false, at, pattern, "must %s: it would match no request", why)
		} else if err := add(pattern, at); errors.Is(err, routeset.ErrConflict) {
			c.check(false, at, pattern, "must not %v", err)
		} else if err != nil {
			c.check(false, at, pattern, `must be a pattern such as /path/, "GET /users/{id}" or example.com/: %v`, err)
		}
	}
}

// union is for patterns that may conflict.
func union() func(pattern, at string) error {
	s := new(routeset.Set)
	return func(pattern, _ string) error { return s.Add(pattern) }
}

// disjoint is for the patterns of classes: the most specific one has to decide.
func (c *checker) disjoint() func(pattern, at string) error {
	s, places := new(routeset.Set), map[string]string{}
	return func(pattern, at string) error {
		err := s.AddOne(pattern)
		if err == nil {
			places[pattern] = at
		}
		if !errors.Is(err, routeset.ErrConflict) {
			return err
		}
		for other, path := range places {
			if strings.Contains(err.Error(), strconv.Quote(other)) {
				place := c.Errorf(c.Where(path), path, "")
				return fmt.Errorf("%w; that one is in line %d: make one of the two narrower, for example by a method", err, place.Line)
			}
		}
		return err
	}
}

// within checks a time from least to maxTime.
func (c *checker) within(path string, d, least time.Duration) {
	if c.HasValue(path) {
		c.check(d >= least && d <= maxTime, path, d, "must be from %v to %v", least, maxTime)
	}
}

func (c *checker) size(path string, n bytesize.Size, least int) {
	if c.HasValue(path) {
		c.check(int(n) >= least && int64(n) <= maxBytesOf, path, n, "must be from %v to %v", bytesize.Size(least), bytesize.Size(maxBytesOf))
	}
}

func (c *checker) header(path, name string) {
	c.check(c.HasValue(path), path, nil, "must be given: the name of a header")
	c.check(!c.HasValue(path) || httpguts.ValidHeaderFieldName(name), path, name, "must be the name of a header")
}

func (c *checker) priority(p *Priority) {
	c.header("priority.header", p.Header)
	c.check(!c.HasValue("priority.levels") || len(p.Levels) > 0 && len(p.Levels) <= maxLevels, "priority.levels", nil, "must have 1 to %d values", maxLevels)
	c.check(len(p.Trust) <= maxTrust, "priority.trust", len(p.Trust), "must be at most %d networks", maxTrust)
}

func (c *checker) tenants(t *Tenants) {
	c.check(c.HasValue("tenants.by"), "tenants.by", nil, "must be given, such as header X-Api-Key")
	var all Texts
	for _, class := range c.Classes {
		all = append(all, class.Routes...)
	}
	c.keys("tenants.by", t.By, all)
	c.check(len(t.Weights) <= maxWeights, "tenants.weights", len(t.Weights), "must be at most %d", maxWeights)
	for _, name := range slices.Sorted(maps.Keys(t.Weights)) {
		c.check(t.Weights[name] >= 1 && t.Weights[name] <= maxWeight, strictyaml.Join("tenants.weights", name), t.Weights[name], "must be from 1 to %d", maxWeight)
	}
}

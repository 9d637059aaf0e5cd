package proxyrule

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// classes checks the classes, and that no pattern is in two of them.
func (c *checker) classes() {
	names := map[string]string{}
	add := c.disjoint()
	for i := range c.Classes {
		class, path := &c.Classes[i], fmt.Sprintf("classes[%d]", i)
		c.name(path+".name", class.Name, names)
		c.check(class.Name != DefaultClass, path+".name", class.Name, "must be another: the class of all other requests is given as default: at the top")
		c.check(class.Name != TotalName, path+".name", class.Name, "must be another: it stands for the limit of all classes")
		c.check(len(class.Routes) > 0, path+".routes", nil, `must be given: patterns such as /reports/ or "GET /users/{id}"`)
		c.patterns(path+".routes", class.Routes, add)
		c.class(path, class)
		if class.Limit == nil {
			c.shared(path)
		}
	}
	if c.Default != nil {
		c.check(!c.HasValue("default.name"), "default.name", nil, "must be left out: its name is default")
		c.check(!c.HasValue("default.routes"), "default.routes", nil, "must be left out: it has the requests that no other class has")
		c.class("default", c.Default)
	}
}

// shared rejects fields that have no effect without a limit.
func (c *checker) shared(path string) {
	for _, name := range []string{"initial_limit", "min_limit", "max_limit", "max_healthy_latency", "slow_start", "queue", "max_wait"} {
		c.check(!c.HasValue(path+"."+name), path+"."+name, nil, "must be left out without limit: the class then shares the limit and the queue of the default class")
	}
}

func (c *checker) class(path string, class *Class) {
	c.mode(path+".mode", class.Mode)
	c.concurrency(path, &class.Concurrency)
	if class.Timeout != nil {
		c.within(path+".timeout", *class.Timeout, 0)
	}
	c.within(path+".deadline", class.Deadline, 1)
	if class.MaxBody != nil {
		c.size(path+".max_body", *class.MaxBody, 0)
	}
	if class.Cache != nil {
		c.cache(path+".cache", class)
	}
}

func (c *checker) concurrency(path string, l *Concurrency) {
	if l.Limit != nil && l.Limit.Fixed() {
		for _, name := range []string{"initial_limit", "min_limit", "max_limit", "max_healthy_latency"} {
			c.check(!c.HasValue(path+"."+name), path+"."+name, nil, "must be left out with a limit that is a number")
		}
		c.check(l.Limit.n <= maxUnits, path+".limit", l.Limit.n, "must be at most %d", int(maxUnits))
	}
	if l.Limit != nil && !l.Limit.Fixed() {
		name := l.Limit.String()
		c.check(name == "auto" || name == "aimd" || !c.HasValue(path+".max_healthy_latency"), path+".max_healthy_latency", nil, "must be left out with the limit %s: it is for auto and aimd", name)
	}
	for name, n := range map[string]int{"initial_limit": l.InitialLimit, "min_limit": l.MinLimit, "max_limit": l.MaxLimit} {
		if c.HasValue(path + "." + name) {
			c.check(n >= 1 && n <= maxUnits, path+"."+name, n, "must be from 1 to %d", int(maxUnits))
		}
	}
	if c.HasValue(path+".min_limit") && c.HasValue(path+".max_limit") {
		c.check(l.MinLimit <= l.MaxLimit, path+".min_limit", l.MinLimit, "must be at most max_limit, which is %d", l.MaxLimit)
	}
	if c.HasValue(path+".initial_limit") && c.HasValue(path+".max_limit") {
		c.check(l.InitialLimit <= l.MaxLimit, path+".initial_limit", l.InitialLimit, "must be at most max_limit, which is %d", l.MaxLimit)
	}
	if c.HasValue(path+".initial_limit") && c.HasValue(path+".min_limit") {
		c.check(l.InitialLimit >= l.MinLimit, path+".initial_limit", l.InitialLimit, "must be at least min_limit, which is %d", l.MinLimit)
	}
	c.within(path+".max_healthy_latency", l.MaxHealthyLatency, 0)
	if l.SlowStart != nil {
		c.within(path+".slow_start", *l.SlowStart, 0)
	}
	if l.Queue != nil {
		c.check(*l.Queue >= 0 && *l.Queue <= maxQueue, path+".queue", *l.Queue, "must be from 0 to %d", int(maxQueue))
	}
	if l.MaxWait != nil {
		c.within(path+".max_wait", *l.MaxWait, 0)
	}
}

func (c *checker) cache(path string, class *Class) {
	k := class.Cache
	c.within(path+".ttl", k.TTL, 0)
	c.within(path+".stale", k.Stale, 0)
	c.within(path+".stale_if_error", k.StaleIfError, 0)
	c.within(path+".stale_if_rejected", k.StaleIfRejected, 0)
	c.size(path+".memory", k.Memory, 1<<10)
	c.size(path+".max_body", k.MaxBody, 1)
	memory := k.Memory
	if memory == 0 {
		memory = defaultCacheMemory
	}
	c.check(k.MaxBody <= memory, path+".max_body", k.MaxBody, "must be at most memory, which is %v", memory)
	for i, name := range k.Vary {
		c.check(httpguts.ValidHeaderFieldName(name), fmt.Sprintf("%s.vary[%d]", path, i), name, "must be the name of a header")
	}
	c.check(len(k.Vary) <= maxSources, path+".vary", len(k.Vary), "must be at most %d headers", maxSources)
	unused := len(class.Routes) > 0 && !slices.ContainsFunc(class.Routes, func(pattern string) bool {
		method, _, found := strings.Cut(strings.TrimSpace(pattern), " ")
		return !found || method == "GET" || method == "HEAD"
	})
	c.check(!unused, path, nil, "must be left out: only responses to GET and HEAD are kept, and no route has these methods")
}

// defaultCacheMemory is Cache.Memory where it is zero.
const defaultCacheMemory = 64 << 20

package server

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// storedKey returns the key in the store of a bucket, with the name of what counts it:
//
//	weir:{user:7}:logins
//	weir:rules:{*}:others    of the one bucket of a rule
//
// The bucket is the hash tag, so that all buckets of a key are in one slot of a Cluster. A
// bucket that begins with a brace would leave the tag empty: its keys have a fixed tag. Names have
// no closing brace, so keys of different buckets differ.
func (s *Shared) storedKey(bucket, name string) string {
	if strings.HasPrefix(bucket, "}") {
		return s.cfg.Prefix + "-{=}" + bucket + "}:" + name
	}
	if bucket == "" {
		return s.cfg.Prefix + "rules:{*}:" + name
	}
	return s.cfg.Prefix + "{" + bucket + "}:" + name
}

// storedName returns a name without a closing brace. Names of rules have no backslash.
func storedName(name string) string { return strings.ReplaceAll(name, "}", `\`) }

// checkSlots reports rules whose buckets for one key are in different slots of a Cluster.
func checkSlots(set *rules.Set) error {
	for _, what := range []struct {
		name string
		has  func(*config.Rule) bool
	}{{"rate", (*config.Rule).Rated}, {"concurrency", func(r *config.Rule) bool { return r.Concurrency != nil }}} {
		if key, rule := set.Mixed(what.has); key != "" {
			return fmt.Errorf("server: the rules %q (per: key) and %q (per: rule) both have a %s: with apply: all, a Redis Cluster cannot decide about both in one call, because their buckets are in different slots: use apply: first, or a store that is no Cluster",
				key, rule, what.name)
		}
	}
	return nil
}

// kindSuffix tells buckets apart that count in another way, after a change of the rule.
func kindSuffix(a config.Algorithm) string {
	if a.Windows() {
		return ":" + string(a)
	}
	return ""
}

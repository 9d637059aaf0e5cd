package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/weir-go/weir/service/internal/descriptor"
	"github.com/weir-go/weir/service/internal/strictyaml"
)

// RateLimitOptions apply to files of envoyproxy/ratelimit.
type RateLimitOptions struct {
	// Algorithm is GCRA (if empty) or FixedWindow. It holds for the limits of rules, and for
	// limits that descriptors bring.
	Algorithm Algorithm `name:"rls-algorithm" enum:"gcra,fixed_window" default:"gcra" placeholder:"NAME" help:"The algorithm of limits in the format of envoyproxy/ratelimit, of rules and of requests: gcra, or fixed_window, which counts as that server does: in windows of the clock, including requests that it denies (${default})."`
	// MergeDomains lets several files have descriptors of the same domain.
	MergeDomains bool `name:"merge-domain-config" env:"WEIR_MERGE_DOMAIN_CONFIG,MERGE_DOMAIN_CONFIG" help:"Files in the format of envoyproxy/ratelimit may add to the same domain."`
}

// A Descriptor has the settings of a rate_limit of envoyproxy/ratelimit, without its quota.
type Descriptor struct {
	// Path is the place of the rule in its domain: domain|key=value|key.
	Path string
	// Unlimited says that the rule allows every request. It has no rate then.
	Unlimited bool
	// Name is the name in answers, and for Replaces; it may be empty.
	Name string
	// Replaces has the names of rules that do not count for a request which has this one.
	Replaces []string
	// Quota says that a request beyond the limit is denied only if it is beyond the limits of
	// all its descriptors with a rule that says so. Shadow says that the rule only counts. The mode
	// of the rule is shadow for both.
	Quota, Shadow bool
	// Metadata is added to the dynamic metadata of requests that the rule allows.
	Metadata map[string]any
	// Shares has, for each entry of a key, the value that stands for all values in the key
	// of the bucket; empty if each value has a bucket. It is nil if no entry has one.
	Shares []string
}

// RateUnits are the periods of envoyproxy/ratelimit, by the number of the unit in its
// protocol; 0 is none.
var RateUnits = [...]time.Duration{1: time.Second, 2: time.Minute, 3: time.Hour, 4: day, 5: 30 * day, 6: 365 * day, 7: 7 * day}

// RateUnit returns the index in RateUnits of a period, or 0 if it has none. For the protocol, a
// calendar Month is the unit of 30 days.
func RateUnit(period time.Duration) uint64 {
	if period == Month {
		period = 30 * day
	}
	return uint64(max(slices.Index(RateUnits[:], period), 0))
}

// unitNames are the names of RateUnits.
var unitNames = [len(RateUnits)]string{1: "second", 2: "minute", 3: "hour", 4: "day", 5: "month", 6: "year", 7: "week"}

// The format of a file.
type (
	rateLimitFile struct {
		Domain      string           `yaml:"domain"`
		Descriptors []rateDescriptor `yaml:"descriptors"`
	}
	rateDescriptor struct {
		Key            string           `yaml:"key"`
		Value          string           `yaml:"value"`
		RateLimit      *rateLimit       `yaml:"rate_limit"`
		Descriptors    []rateDescriptor `yaml:"descriptors"`
		ShadowMode     bool             `yaml:"shadow_mode"`
		QuotaMode      bool             `yaml:"quota_mode"`
		DetailedMetric bool             `yaml:"detailed_metric"`
		ValueToMetric  bool             `yaml:"value_to_metric"`
		ShareThreshold bool             `yaml:"share_threshold"`
		Metadata       metadata         `yaml:"metadata"`
	}
	rateLimit struct {
		RequestsPerUnit uint32      `yaml:"requests_per_unit"`
		Unit            string      `yaml:"unit"`
		Unlimited       bool        `yaml:"unlimited"`
		Name            string      `yaml:"name"`
		Replaces        []rateNamed `yaml:"replaces"`
	}
	rateNamed struct {
		Name string `yaml:"name"`
	}
	metadata map[string]any
)

// isRateLimit reports whether a file is in the format of envoyproxy/ratelimit.
func isRateLimit(file *strictyaml.File) bool {
	return (file.Has("domain") || file.Has("descriptors")) && !file.Has("rules")
}

// A rateLimits reads files of envoyproxy/ratelimit.
type rateLimits struct {
	RateLimitOptions
	file  *strictyaml.File
	rules Rules
	names map[string]bool
}

// rateLimitRules returns the rules of files in the format of envoyproxy/ratelimit.
func rateLimitRules(files []*strictyaml.File, o RateLimitOptions) (*Rules, error) {
	l := &rateLimits{RateLimitOptions: o, rules: Rules{Descriptors: new(descriptor.Tree), Overrides: o.Algorithm}, names: map[string]bool{}}
	var wrong []error
	for _, file := range files {
		l.file = file
		l.read()
		wrong = append(wrong, file.Err())
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	if err := l.rules.Complete(); err != nil {
		return nil, fmt.Errorf("%s: %w", files[0].Name, err)
	}
	return &l.rules, nil
}

func (l *rateLimits) complain(path, format string, args ...any) {
	l.file.Report(l.file.Where(path), path, format, args...)
}

// read reads a file.
func (l *rateLimits) read() {
	l.file.Null, l.file.YAML11 = true, true
	l.file.Special = map[reflect.Type]func(ast.Node, reflect.Value, string){reflect.TypeFor[metadata](): l.metadata}
	var says rateLimitFile
	l.file.Decode(l.file.Body, reflect.ValueOf(&says).Elem(), "")
	if says.Domain == "" {
		l.complain("domain", ": must be given")
		return
	}
	domain, fresh := l.rules.Descriptors.Domain(says.Domain)
	if !fresh && !l.MergeDomains {
		l.complain("domain", " = %q: an earlier file has this domain (allow that with --merge-domain-config)", says.Domain)
		return
	}
	at := ratePlace{name: says.Domain, path: string(descriptor.Append(nil, says.Domain, nil))}
	l.level(domain, at, "descriptors", says.Descriptors)
}

// metadata reads the metadata of a descriptor.
func (l *rateLimits) metadata(n ast.Node, v reflect.Value, path string) {
	fields := metadata{}
	maps.Copy(fields, v.Interface().(metadata)) // what was merged
	for _, e := range l.file.Fields(n, path) {
		name := strictyaml.Scalar(l.file.Plain(e.Key))
		fields[name] = l.file.Any(e.Value, strictyaml.Join(path, name))
	}
	v.Set(reflect.ValueOf(fields))
}

// A ratePlace describes a level of descriptors: it has the settings that rules below inherit.
type ratePlace struct {
	name   string   // domain.key_value.key
	path   string   // Descriptor.Path
	shares []string // Descriptor.Shares, also if all are empty
	wide   bool     // the rules have more than one bucket
}

// below returns the place of a descriptor.
func (at ratePlace) below(d *rateDescriptor) ratePlace {
	text := d.Key
	at.path = string(descriptor.Append([]byte(at.path), "", []descriptor.Entry{{Key: d.Key, Value: d.Value}}))
	if d.Value != "" {
		text += "_" + d.Value
	} else {
		at.path = strings.TrimSuffix(at.path, "=")
	}
	at.name += "." + text
	share := ""
	if d.ShareThreshold {
		share = text
		if d.Value != "" {
			share = d.Value
		}
	}
	at.shares = append(slices.Clip(at.shares), share)
	at.wide = at.wide || d.Value == "" || strings.Contains(text, "*") // also of a shared value: it has a bucket for each key
	return at
}

// level reads a list of descriptors.
func (l *rateLimits) level(to descriptor.Level, at ratePlace, path string, list []rateDescriptor) {
	for i := range list {
		d, path := &list[i], path+"["+strconv.Itoa(i)+"]"
		if d.Key == "" {
			if !l.file.Wrong(path) {
				l.complain(path+".key", ": must be given")
			}
			continue
		}
		at := at.below(d)
		limit := descriptor.None
		if d.RateLimit != nil {
			limit = len(l.rules.Rules)
		}
		below, fresh := to.Add(d.Key, d.Value, limit)
		if !fresh {
			l.complain(path, ": a second descriptor for %s", at.path)
			continue
		}
		if text := d.Key + d.Value; d.ShareThreshold && !strings.Contains(text, "*") {
			l.complain(path+".share_threshold", ": is only for a value with *")
		} else if d.ShareThreshold && d.Value == "" && !strings.HasSuffix(text, "*") {
			l.complain(path+".share_threshold", ": is for a key with * only if the * is at its end, or with a value")
		}
		if d.RateLimit != nil {
			l.rules.Rules = append(l.rules.Rules, l.rule(at, path+".rate_limit", d))
		}
		l.level(below, at, path+".descriptors", d.Descriptors)
	}
}

// rule returns the rule of a descriptor with a rate_limit.
func (l *rateLimits) rule(at ratePlace, path string, d *rateDescriptor) Rule {
	limit := d.RateLimit
	of := &Descriptor{Path: at.path, Name: limit.Name, Unlimited: limit.Unlimited, Quota: d.QuotaMode, Shadow: d.ShadowMode, Metadata: d.Metadata}
	if slices.ContainsFunc(at.shares, func(share string) bool { return share != "" }) {
		of.Shares = at.shares
	}
	for i, other := range limit.Replaces {
		switch path := path + ".replaces[" + strconv.Itoa(i) + "].name"; {
		case other.Name == "":
			l.complain(path, ": must be given")
		case other.Name == limit.Name:
			l.complain(path, " = %q: is the name of the same rate_limit", other.Name)
		}
		of.Replaces = append(of.Replaces, other.Name)
	}
	r := Rule{Name: l.name(at), Descriptor: of, OwnQuota: true}
	if !at.wide {
		r.Per = PerRule
	}
	if d.ShadowMode || d.QuotaMode {
		r.Mode = Shadow
	}
	unit := slices.Index(unitNames[:], strings.ToLower(limit.Unit))
	switch {
	case limit.Unlimited && unit > 0:
		l.complain(path+".unit", " = %q: must be left out with unlimited", limit.Unit)
	case limit.Unlimited:
	case unit <= 0:
		l.complain(path+".unit", " = %q: must be second, minute, hour, day, week, month or year", limit.Unit)
	default:
		r.Quota = Quota{Rate: Rate{Count: int(limit.RequestsPerUnit), Period: RateUnits[unit]}, Algorithm: l.Algorithm}
	}
	return r
}

// name returns the name that envoyproxy/ratelimit gives to the statistics of a rule, with _
// for characters that names of rules cannot have. If it is too long or taken, it ends in a
// hash of the path.
func (l *rateLimits) name(at ratePlace) string {
	name := strings.Map(func(r rune) rune {
		if r == ' ' || !named(string(r)) {
			return '_'
		}
		return r
	}, at.name)
	if len(name) > maxName || l.names[name] {
		sum := sha256.Sum256([]byte(at.path))
		hash := "#" + hex.EncodeToString(sum[:6])
		name = name[:min(len(name), maxName-len(hash))] + hash
	}
	l.names[name] = true
	return name
}

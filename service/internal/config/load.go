package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/service/internal/rulefile"
	"github.com/weir-go/weir/service/internal/strictyaml"
)

// Bounds of a file, and of all files of a directory together.
const (
	maxBytes  = 16 << 20
	maxValues = 1_500_000 // with all aliases put in
)

// Load reads the rules of a file or, if path is one, of a directory: of all its
// files *.yaml, *.yml and *.json that are not hidden, in the order of their
// names, as if they were one file. Their other fields must not conflict.
// Subdirectories are ignored. From a mounted ConfigMap of Kubernetes, it reads all
// files of the same version.
//
// A .json file with a list of keys is in the format of GoCC: see ParseGoCC. Files with a
// domain and descriptors are in the format of envoyproxy/ratelimit: then all files must be,
// each with another domain.
//
// An error of the content joins an error for each invalid field: file:line:column,
// the field, its value, and the condition. The rules are Complete.
func Load(path string) (*Rules, error) { return LoadWith(path, RateLimitOptions{}) }

// LoadWith is Load with options for files of envoyproxy/ratelimit.
func LoadWith(path string, o RateLimitOptions) (*Rules, error) {
	rules, _, err := LoadPlaced(path, o)
	return rules, err
}

// LoadPlaced is LoadWith, and returns where a rule is, by its index: file:line:column. Of files of
// envoyproxy/ratelimit, it is the file alone.
func LoadPlaced(path string, o RateLimitOptions) (rules *Rules, place func(rule int) string, err error) {
	sources, err := rulefile.Read(path, maxBytes)
	if err != nil {
		return nil, nil, err
	}
	return load(sources, o)
}

// Parse reads the content of one file as Load does; name is for errors.
func Parse(name string, text []byte) (*Rules, error) {
	return ParseWith(name, text, RateLimitOptions{})
}

// ParseWith is Parse with options for a file of envoyproxy/ratelimit.
func ParseWith(name string, text []byte, o RateLimitOptions) (*Rules, error) {
	rules, _, err := load([]rulefile.Source{{Name: name, Text: text}}, o)
	return rules, err
}

// A part is the content of one file of several.
type part struct {
	*strictyaml.File
	says  Rules
	first int // place in the whole of its first rule
}

// A whole is the rules of all files, with their sources.
type whole struct {
	Rules
	parts     []*part
	definedIn map[string]*part // by field, apply or unmatched: the first part that defines it
	given     bool             // rules, if none
}

// load reads the rules of files, and returns where they are: see LoadPlaced.
func load(sources []rulefile.Source, o RateLimitOptions) (rules *Rules, at func(rule int) string, err error) {
	var texts [][]byte
	bytes := 0
	for _, s := range sources {
		texts = append(texts, s.Text)
		if bytes += len(s.Text); bytes > maxBytes {
			return nil, nil, &strictyaml.Error{File: s.Name, Line: 1, Column: 1, What: fmt.Sprintf("more than %d bytes, with the files before it", maxBytes)}
		}
	}
	w := &whole{definedIn: map[string]*part{}}
	var limits []*strictyaml.File // of envoyproxy/ratelimit
	var wrong []error
	for _, s := range sources {
		file, err := strictyaml.Parse(s.Name, s.Text, strictyaml.Bounds{Bytes: maxBytes, Values: maxValues})
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case file.Body == nil:
			wrong = append(wrong, file.Errorf(nil, "", "want one document, beginning with rules:"))
		case isGoCC(file) && len(sources) > 1:
			wrong = append(wrong, file.Errorf(nil, "", "a file of GoCC's, whose rules are laid over each other: must be the only one"))
		case isGoCC(file):
			r, err := gocc(file, GoCCDefaults{})
			if err != nil {
				return nil, nil, err
			}
			r.Hash = rulefile.Hash(texts...)
			return r, func(rule int) string { return file.Place("keys[" + strconv.Itoa(rule-1) + "]") }, nil
		case isRateLimit(file):
			limits = append(limits, file)
		default:
			w.add(file)
		}
	}
	if limits != nil {
		for _, p := range w.parts {
			wrong = append(wrong, p.Errorf(nil, "", "want a domain and descriptors, as in %s", limits[0].Name))
		}
		r, err := rateLimitRules(limits, o)
		if err = errors.Join(append(wrong, err)...); err != nil {
			return nil, nil, err
		}
		r.Hash = rulefile.Hash(texts...)
		return r, func(int) string { return limits[0].Name }, nil
	}
	if len(wrong) == 0 {
		w.validate()
	}
	for _, p := range w.parts {
		wrong = append(wrong, p.Err())
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, nil, err
	}
	w.complete()
	w.Hash = rulefile.Hash(texts...)
	return &w.Rules, func(rule int) string { return w.place("rules[" + strconv.Itoa(rule) + "]") }, nil
}

// add reads one more file.
func (w *whole) add(file *strictyaml.File) {
	p := &part{File: file, first: len(w.Rules.Rules)}
	w.parts = append(w.parts, p)
	p.Decode(p.Body, reflect.ValueOf(&p.says).Elem(), "")
	w.Rules.Rules = append(w.Rules.Rules, p.says.Rules...)
	w.given = w.given || p.says.Rules != nil
	for _, field := range []struct {
		name         string
		value, whole *string
	}{
		{"apply", (*string)(&p.says.Apply), (*string)(&w.Apply)},
		{"unmatched", &p.says.Unmatched, &w.Unmatched},
	} {
		switch before := w.definedIn[field.name]; {
		case *field.value == "":
		case before == nil:
			*field.whole, w.definedIn[field.name] = *field.value, p
		case *field.value != *field.whole:
			p.Report(p.Where(field.name), field.name, " = %q: must be as at %s, or left out",
				strictyaml.Short(*field.value), before.Place(field.name))
		}
	}
}

// in returns the part that a field of the whole is in, and its path there.
func (w *whole) in(path string) (*part, string) {
	rest, ok := strings.CutPrefix(path, "rules[")
	if !ok {
		if p := w.definedIn[path]; p != nil {
			return p, path
		}
		return w.parts[0], path
	}
	number, rest, _ := strings.Cut(rest, "]")
	i, _ := strconv.Atoi(number)
	after, _ := slices.BinarySearchFunc(w.parts, i+1, func(p *part, i int) int { return p.first - i })
	p := w.parts[after-1]
	return p, fmt.Sprintf("rules[%d]%s", i-p.first, rest)
}

// validate reports errors with their places.
func (w *whole) validate() {
	if read := !slices.ContainsFunc(w.parts, func(p *part) bool { return p.Err() != nil }); read && !w.given {
		w.parts[0].Report(nil, "rules", ": must be given; [] if there are none")
	}
	var all complaints
	w.check(func(e *FieldError) {
		p, path := w.in(e.Field)
		all = append(all, complaint{p.File, path, e})
	}, w.place, w.has)
	all.report()
}

// has reports whether the files have a field of the whole.
func (w *whole) has(path string) bool {
	p, path := w.in(path)
	return p.HasValue(path)
}

func (w *whole) place(path string) string {
	p, path := w.in(path)
	return p.Place(path)
}

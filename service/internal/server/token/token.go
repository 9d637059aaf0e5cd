// Package token says who may ask a server for what: by secrets that callers
// show, and what each of them allows.
//
//	tokens:
//	  - name: checkout            # for answers and logs
//	    sha256: 6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918
//	    keys: ["user:*", "cart:?"]    # globs; all keys if left out
//	  - name: operator
//	    token: a-secret-of-at-least-16-bytes
//	    allow: [decide, lease, debug]    # decide and lease if left out
//
// A secret is in the file itself or, better, its SHA-256 is:
//
//	printf %s "$SECRET" | sha256sum
package token

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/service/internal/match"
	"github.com/weir-go/weir/service/internal/strictyaml"
)

// An Action is what a caller can do to a key.
type Action string

const (
	Decide Action = "decide" // ask for tokens, and settle
	Lease  Action = "lease"  // acquire, renew and return leases
	Debug  Action = "debug"  // see how a key stands
)

var actions = []Action{Decide, Lease, Debug}

// Bounds of a file.
const (
	maxBytes  = 1 << 20
	maxValues = 100_000
	maxTokens = 1000
	minSecret = 16 // bytes
)

// A Set is the tokens of a file. It does not change.
type Set struct{ tokens []*Token }

// A Token is what its secret allows.
type Token struct {
	Name  string
	hash  [sha256.Size]byte
	keys  *match.Set // nil: all
	allow []Action
}

// Errors of Token.Authorize.
var (
	ErrUnknown   = errors.New("no token that is known: send Authorization: Bearer, and the token")
	ErrForbidden = errors.New("the token does not allow this")
)

// Authorize returns nil if the token allows an action on a key or, if that is
// empty, on all keys at once; or what wraps ErrForbidden; or, of a nil Token,
// ErrUnknown.
func (t *Token) Authorize(a Action, key string) error {
	switch {
	case t == nil:
		return ErrUnknown
	case !slices.Contains(t.allow, a):
		return fmt.Errorf("%w: %s may not %s", ErrForbidden, t.Name, a)
	case t.keys != nil && (key == "" || t.keys.First(key) < 0):
		return fmt.Errorf("%w: not one of the keys of %s", ErrForbidden, t.Name)
	}
	return nil
}

// Find returns the Token that a field Authorization shows; nil if there is none.
// How long it takes tells nothing of the secrets: hashes are compared, with all
// of them, and in constant time.
func (s *Set) Find(authorization string) (found *Token) {
	scheme, secret, ok := strings.Cut(authorization, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	hash := sha256.Sum256([]byte(strings.TrimLeft(secret, " ")))
	for _, t := range s.tokens {
		if subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1 {
			found = t
		}
	}
	return found
}

// file is what a file says.
type file struct {
	Tokens []entry `yaml:"tokens"`
}

type entry struct {
	Name   string   `yaml:"name"`
	SHA256 string   `yaml:"sha256"`
	Token  string   `yaml:"token"`
	Keys   []string `yaml:"keys"`
	Allow  []Action `yaml:"allow"`
}

// Load reads a file. An error of the content joins an error for each thing that
// is wrong, with its place; none of them shows a secret.
func Load(path string) (*Set, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Parse reads the content of a file as Load does; name is for errors.
func Parse(name string, text []byte) (*Set, error) {
	f, err := strictyaml.Parse(name, text, strictyaml.Bounds{Bytes: maxBytes, Values: maxValues})
	if err != nil {
		return nil, err
	}
	if f.Body == nil {
		return nil, f.Errorf(nil, "", "want one document, beginning with tokens:")
	}
	var says file
	f.Decode(f.Body, reflect.ValueOf(&says).Elem(), "")
	if says.Tokens == nil && f.Err() == nil {
		f.Report(nil, "tokens", ": must be given; [] if there are none")
	}
	if len(says.Tokens) > maxTokens {
		f.Report(f.Where("tokens"), "tokens", ": must be at most %d", maxTokens)
		return nil, f.Err()
	}
	s := &Set{}
	for i, e := range says.Tokens {
		s.add(&reader{f, "tokens[" + strconv.Itoa(i) + "]"}, e)
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// A reader reports what is wrong with one token.
type reader struct {
	file *strictyaml.File
	path string
}

func (r *reader) check(fine bool, field, format string, args ...any) {
	path := r.path
	if field != "" {
		path = strictyaml.Join(path, field)
	}
	if !fine && !r.file.Wrong(path) {
		r.file.Report(r.file.Where(path), path, ": "+format, args...)
	}
}

// add adds a token, or reports what is wrong with it.
func (s *Set) add(r *reader, e entry) {
	t := &Token{Name: e.Name, allow: e.Allow}
	r.check(e.Name != "", "name", "must be given")
	r.check((e.SHA256 == "") != (e.Token == ""), "token", "must have either this or sha256")
	if e.SHA256 != "" {
		hash, err := hex.DecodeString(e.SHA256)
		r.check(err == nil && len(hash) == sha256.Size, "sha256", "must be 64 hexadecimal digits")
		copy(t.hash[:], hash)
	} else if e.Token != "" {
		r.check(len(e.Token) >= minSecret, "token", "must have at least %d bytes", minSecret)
		t.hash = sha256.Sum256([]byte(e.Token))
	}
	for _, other := range s.tokens {
		r.check(other.Name != e.Name, "name", "must differ from all others")
		r.check(other.hash != t.hash || t.hash == [sha256.Size]byte{}, "", "must differ from %s: the secret is the same", other.Name)
	}
	if e.Allow == nil {
		t.allow = []Action{Decide, Lease}
	}
	for i, a := range e.Allow {
		r.check(slices.Contains(actions, a), fmt.Sprintf("allow[%d]", i), "must be decide, lease or debug")
	}
	if e.Keys != nil {
		t.keys = globs(r, e.Keys)
	}
	s.tokens = append(s.tokens, t)
}

// globs makes a set of the globs of keys.
func globs(r *reader, keys []string) *match.Set {
	var patterns []match.Pattern
	for i, key := range keys {
		p := match.Pattern{Kind: match.Glob, Text: key}
		_, err := match.New([]match.Pattern{p})
		r.check(err == nil, fmt.Sprintf("keys[%d]", i), "must be a glob: %v", err)
		if err == nil {
			patterns = append(patterns, p)
		}
	}
	set, err := match.New(patterns)
	r.check(err == nil, "keys", "%v", err)
	return set
}

package rulecheck

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/decisionlog"
	"github.com/weir-go/weir/service/internal/match"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A recorded has the decisions of files, in the order of time.
type recorded struct {
	items    []item
	keys     []recordedKey
	rules    []string
	terms    []*decisionlog.Terms
	info     decisionlog.Info
	counters decisionlog.Counters
	settles  map[int32]bool // keys with settlements
	salts    int
	cut      []string // files that are cut off or damaged
}

// An item is a decisionlog.Decision.
type item struct {
	at      int64 // nanoseconds since 1970
	maxWait time.Duration
	n       uint32
	group   uint32
	key     int32 // -1 if it is not recorded
	rule    int32
	terms   int32 // -1 for none, -2 if they are not recorded
	denied  bool
	flags   decisionlog.Flags
}

// A recordedKey is a key with texts in place of the segments that are not known. Different keys have different texts.
type recordedKey struct {
	text  string
	label string // for people: ~ and 8 digits stand for a segment
	doubt int32  // the pattern of which it is not known whether it matches the key; -1 if there is none
}

// A reader reads files of decisions for some rules.
type reader struct {
	recorded
	set     *config.Rules
	given   *decisionlog.Salt
	known   []string // segments that may be in keys
	partial map[string]*match.Partial
	words   map[string]map[uint64]string // of segments by their fingerprint, by the salt and the separators
	ids     map[string]int32             // of keys, by text
	ruleIDs map[string]int32
	salt    map[string]bool
	runs    map[int64]decisionlog.Counters // of a process, by its epoch
	files   []fs.FileInfo                  // that have been read
}

// readAll reads files. The error is about a file or the salt.
func readAll(files []string, r *reader) error {
	r.partial, r.words = map[string]*match.Partial{}, map[string]map[uint64]string{}
	r.settles = map[int32]bool{}
	r.ids, r.ruleIDs, r.salt, r.runs = map[string]int32{}, map[string]int32{}, map[string]bool{}, map[int64]decisionlog.Counters{}
	for _, path := range files {
		all, err := decisionlog.Files(path)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return fmt.Errorf("%s: has no files *%s", path, decisionlog.Ext)
		}
		for _, path := range all {
			if err := r.file(path); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	r.salts = len(r.salt)
	for _, c := range r.runs {
		r.counters.Lost += c.Lost
		r.counters.Failed += c.Failed
		r.counters.Leases += c.Leases
		r.counters.LeafUsed += c.LeafUsed
	}
	slices.SortStableFunc(r.items, func(a, b item) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.group, b.group)) })
	return nil
}

// file reads a file.
func (r *reader) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(r.files, func(other fs.FileInfo) bool { return os.SameFile(info, other) }):
		return errors.New("is given twice: its requests would count twice")
	}
	r.files = append(r.files, info)
	in, err := decisionlog.NewReader(f)
	if errors.Is(err, decisionlog.ErrCut) {
		r.cut = append(r.cut, path)
		return nil
	} else if err != nil {
		return err
	}
	about := in.Info()
	partial, words, err := r.wordsOf(about)
	if err != nil {
		return err
	}
	r.info.MaxLimit, r.info.MaxQueue = max(r.info.MaxLimit, about.MaxLimit), max(r.info.MaxQueue, about.MaxQueue)
	r.info.OwnQuotas = r.info.OwnQuotas || about.OwnQuotas
	epoch := in.Epoch().UnixNano()
	terms := map[*decisionlog.Terms]int32{nil: -1}
	for {
		d, err := in.Read()
		switch {
		case err == io.EOF, errors.Is(err, decisionlog.ErrCut), errors.Is(err, decisionlog.ErrDamaged):
			if err != io.EOF {
				r.cut = append(r.cut, path)
			}
			r.runs[epoch] = later(r.runs[epoch], in.Counters())
			return nil
		case err != nil:
			return err
		}
		key := int32(-1)
		if d.Key != nil {
			if d.Key.Mark == 0 {
				d.Key.Mark = 1 + int(r.key(d.Key.Parts, partial, words))
			}
			key = int32(d.Key.Mark - 1)
		}
		if d.Flags&decisionlog.Settled != 0 {
			r.settles[key] = true
		}
		term, ok := terms[d.Terms]
		if !ok {
			term = int32(len(r.terms))
			terms[d.Terms], r.terms = term, append(r.terms, d.Terms)
		}
		if d.Unknown {
			term = -2
		}
		rule, ok := r.ruleIDs[d.Rule]
		if !ok {
			rule = int32(len(r.rules))
			r.ruleIDs[d.Rule], r.rules = rule, append(r.rules, d.Rule)
		}
		r.items = append(r.items, item{
			at: epoch + int64(d.At), maxWait: d.MaxWait, n: uint32(d.N), group: d.Group, key: key, rule: rule, terms: term, denied: d.Denied, flags: d.Flags,
		})
	}
}

// later returns the later of two Counters of a process, which only grow. A file that ends before its first ones has zeros.
func later(a, b decisionlog.Counters) decisionlog.Counters {
	return decisionlog.Counters{Lost: max(a.Lost, b.Lost), Failed: max(a.Failed, b.Failed), Leases: max(a.Leases, b.Leases), LeafUsed: max(a.LeafUsed, b.LeafUsed)}
}

// wordsOf returns the patterns of the rules for keys of a file, and the segments that they know.
func (r *reader) wordsOf(info decisionlog.Info) (*match.Partial, map[uint64]string, error) {
	r.salt[info.SaltID] = true
	partial := r.partial[info.Separators]
	if partial == nil {
		var err error
		if partial, err = partialOf(r.set, info.Separators); err != nil {
			return nil, nil, err
		}
		r.partial[info.Separators] = partial
	}
	id := info.SaltID + info.Separators
	if r.words[id] != nil {
		return partial, r.words[id], nil
	}
	salt, err := decisionlog.SaltOf(info, r.given)
	if err != nil {
		return nil, nil, err
	}
	printer, words := decisionlog.NewPrinter(salt), map[uint64]string{}
	for _, word := range partial.Words() {
		words[printer.Print(word)] = word
	}
	for _, key := range r.known {
		for word, segment := range match.Split(key, info.Separators) {
			if segment {
				words[printer.Print(word)] = word
			}
		}
	}
	r.words[id] = words
	return partial, words, nil
}

// partialOf compiles the patterns of rules.
func partialOf(c *config.Rules, separators string) (*match.Partial, error) {
	if c.Descriptors != nil {
		return match.NewPartialEntries(c.Descriptors.Domains(), c.Descriptors.Texts(), separators)
	}
	var patterns []match.Pattern
	for i := range c.Rules {
		if c.Rules[i].Mode != config.Off {
			patterns = append(patterns, rules.Pattern(&c.Rules[i]))
		}
	}
	return match.NewPartial(patterns, separators)
}

// key returns the number of a key.
func (r *reader) key(parts []decisionlog.Part, partial *match.Partial, words map[uint64]string) int32 {
	var text, label strings.Builder
	all := make([]match.Part, len(parts))
	for i, part := range parts {
		all[i] = part.Part
		if word, ok := words[part.Print]; part.Text == "" && ok {
			all[i].Text = word
		}
		if known := all[i].Text; known != "" {
			text.WriteString(known)
			label.WriteString(known)
			continue
		}
		text.WriteString(pseudonym(part))
		fmt.Fprintf(&label, "~%08x", part.Print>>32)
	}
	id, ok := r.ids[text.String()]
	if !ok {
		id = int32(len(r.keys))
		r.ids[text.String()] = id
		r.keys = append(r.keys, recordedKey{text.String(), label.String(), int32(partial.Doubt(all, r.set.Apply == config.All || r.set.Merge))})
	}
	return id
}

// pseudonym returns a segment with a fingerprint, of the kinds of characters that the segment has. It is so long that no segment
// of a rule is like it by chance.
func pseudonym(p decisionlog.Part) string {
	var chars []rune
	for _, kind := range []struct {
		is    match.Kinds
		chars string
	}{{match.Digits, "0123456789"}, {match.Lower, "abcdefghijklmnopqrstuvwxyz"}, {match.Upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}, {match.Wide, "éèêëàâäùûüôöîïçñ"}} {
		if p.Kinds&kind.is != 0 {
			chars = append(chars, []rune(kind.chars)...)
		}
	}
	if len(chars) == 0 { // of a damaged file
		return "~" + strconv.FormatUint(p.Print, 16)
	}
	var b strings.Builder
	for left, n := p.Print, uint64(len(chars)); ; left /= n {
		b.WriteRune(chars[left%n])
		if left < n {
			return b.String()
		}
	}
}

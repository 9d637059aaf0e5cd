package decisionlog

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-go/weir/service/internal/match"
)

// CheckSeparators returns an error unless a text can be separators.
func CheckSeparators(text string) error {
	if match.KindsOf(text)&^match.Punctuation != 0 || strings.ContainsAny(text, "%\\*\"") || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		return fmt.Errorf("%q: must be characters of ASCII without letters, digits, %%, \\, * and \"", text)
	}
	return nil
}

// A Salt makes fingerprints. The zero Salt is none.
type Salt struct{ secret []byte }

const (
	saltSize    = 16 // of a Salt that NewSalt makes
	leastSecret = 16 // of a file
	maxSecret   = 4 << 10
)

// NewSalt returns a random Salt.
func NewSalt() Salt {
	s := Salt{make([]byte, saltSize)}
	_, _ = rand.Read(s.secret) // it never fails
	return s
}

// LoadSalt reads a Salt from a file. If there is no such file and create is set, it makes one.
func LoadSalt(path string, create bool) (Salt, error) {
	data, err := os.ReadFile(path)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err := createSalt(path); err != nil && !errors.Is(err, fs.ErrExist) { // by another instance
			return Salt{}, err
		}
		return LoadSalt(path, false)
	}
	if err != nil {
		return Salt{}, err
	}
	text := strings.TrimSpace(string(data))
	if len(text) < leastSecret || len(text) > maxSecret {
		return Salt{}, fmt.Errorf("%s: has %d bytes: want %d to %d", path, len(text), leastSecret, maxSecret)
	}
	return Salt{[]byte(text)}, nil
}

// createSalt makes a file with a Salt, which is whole as soon as it has its name.
func createSalt(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".salt-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(hex.EncodeToString(NewSalt().secret) + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path)
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// ID identifies the Salt without telling it.
func (s Salt) ID() string {
	m := hmac.New(sha256.New, s.secret)
	m.Write([]byte("weir decisions: the identity of a salt"))
	return hex.EncodeToString(m.Sum(nil)[:8])
}

// A Printer makes fingerprints of segments. It is not safe for concurrent use.
type Printer struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

// NewPrinter returns a Printer.
func NewPrinter(s Salt) *Printer { return &Printer{mac: hmac.New(sha256.New, s.secret)} }

// Print returns the fingerprint of a segment.
func (p *Printer) Print(segment string) uint64 {
	p.mac.Reset()
	p.mac.Write([]byte{1}) // no segment has the mark of ID
	p.mac.Write([]byte(segment))
	return binary.LittleEndian.Uint64(p.mac.Sum(p.sum[:0]))
}

// A Part is a part of a key: a text in clear, or the fingerprint of a segment.
type Part struct {
	match.Part
	Print uint64 // if Text is empty
}

const (
	clearPart = 0
	printPart = 0x80
	maxText   = 255 // of a part in clear; the reader joins them
)

// appendKey appends the parts of a key as a file has them.
func appendKey(b []byte, key, separators string, p *Printer) []byte {
	for text, segment := range match.Split(key, separators) {
		if segment {
			b = append(b, printPart|byte(match.KindsOf(text)))
			b = binary.LittleEndian.AppendUint64(b, p.Print(text))
			continue
		}
		for text != "" {
			n := min(len(text), maxText)
			b = append(append(b, clearPart, byte(n)), text[:n]...)
			text = text[n:]
		}
	}
	return b
}

// readKey returns the parts of a key.
func readKey(b []byte) (parts []Part, ok bool) {
	for len(b) > 0 {
		switch {
		case b[0] == clearPart && len(b) > 1 && len(b) >= 2+int(b[1]):
			n := 2 + int(b[1])
			text := string(b[2:n])
			if last := len(parts) - 1; last >= 0 && parts[last].Text != "" {
				parts[last].Text += text
			} else if text != "" {
				parts = append(parts, Part{Part: match.Part{Text: text}})
			}
			b = b[n:]
		case b[0] > printPart && len(b) >= 9:
			parts = append(parts, Part{match.Part{Kinds: match.Kinds(b[0] &^ printPart)}, binary.LittleEndian.Uint64(b[1:])})
			b = b[9:]
		default:
			return nil, false
		}
	}
	return parts, len(parts) > 0
}

// SaltOf returns the salt of a file: that in the file or, if it is kept apart, the given one.
func SaltOf(info Info, given *Salt) (Salt, error) {
	s := Salt{info.Salt}
	if given != nil {
		s = *given
	}
	switch {
	case len(s.secret) == 0:
		return s, ErrNoSalt
	case s.ID() != info.SaltID:
		return s, errors.New("the salt is not the one with which the file was written")
	}
	return s, nil
}

// ErrNoSalt says that the salt of a file is kept apart.
var ErrNoSalt = errors.New("the salt is not in the file: it is in that of weir serve --decisions-salt-file: give it as --salt-file")

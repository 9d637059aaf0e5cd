// Package rulefile reads files of rules, whatever their format is, and watches them for changes.
package rulefile

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/weir-go/weir/service/internal/inputfile"
)

// A Source is a file that was read.
type Source struct {
	Name string
	Text []byte
}

// Read reads a file or, if path is a directory, all its files *.yaml, *.yml and *.json that are not hidden, in the
// order of their names. It reads at most one byte more than most, of all files together, so that the caller sees that
// they are too large. From a mounted ConfigMap of Kubernetes, it reads all files of the same version.
func Read(path string, most int) ([]Source, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return readDir(path, most)
	}
	return appendFile(nil, path, most)
}

// Hash returns 12 hexadecimal digits that identify a list of texts.
func Hash(texts ...[]byte) string {
	h := sha256.New()
	for _, text := range texts {
		// With its length, so that moving text from one to the next shows.
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// appendFile reads one more file.
func appendFile(sources []Source, name string, most int) ([]Source, error) {
	left := most + 1
	for _, s := range sources {
		left -= len(s.Text)
	}
	text, err := inputfile.Read(name, left)
	return append(sources, Source{name, text}), err
}

// readDir reads the files of a directory.
func readDir(dir string, most int) ([]Source, error) {
	// The kubelet puts all files of a ConfigMap behind one link, ..data, and
	// changes that. Files that were read before and after are not one version.
	version := func() string {
		to, _ := os.Readlink(filepath.Join(dir, "..data"))
		return to
	}
	for range 10 {
		before := version()
		sources, err := readFiles(dir, most)
		if version() == before {
			return sources, err
		}
	}
	return nil, fmt.Errorf("%s: changes while it is read", dir)
}

func readFiles(dir string, most int) (sources []Source, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if !isRules(entry.Name()) {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if sources, err = appendFile(sources, name, most); err != nil {
			return nil, err
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("%s: there is no *.yaml, *.yml or *.json in it", dir)
	}
	return sources, nil
}

// isRules reports whether a file in a directory has rules, by its name.
func isRules(name string) bool {
	return name[0] != '.' && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

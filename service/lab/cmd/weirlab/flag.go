package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A share is a flag with a part of a whole: 0.01 or 1%.
type share float64

// UnmarshalText reads a number in [0, 1], or one in [0, 100] with a per cent sign.
func (s *share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("%q: want a share such as 1%% or 0.01", text)
	}
	*s = share(v)
	return nil
}

// writeFile creates a file in the directory of --out, which it makes, and reports that
// on stderr.
func writeFile(stderr io.Writer, dir, name string, write func(io.Writer) error) error {
	name = filepath.Join(dir, name)
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		var file *os.File
		if file, err = os.Create(name); err == nil {
			err = errors.Join(write(file), file.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	fmt.Fprintln(stderr, "wrote", name)
	return nil
}

// named returns the items with a name that contains one of the texts; all, if there are no
// texts.
func named[T any](items []T, texts []string, name func(T) string) (found []T) {
	for _, item := range items {
		has := func(text string) bool { return strings.Contains(name(item), text) }
		if len(texts) == 0 || slices.ContainsFunc(texts, has) {
			found = append(found, item)
		}
	}
	return found
}

// names lists the names of items.
func names[T any](items []T, name func(T) string) string {
	var all []string
	for _, item := range items {
		all = append(all, name(item))
	}
	return strings.Join(all, ", ")
}

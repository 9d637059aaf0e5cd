package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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

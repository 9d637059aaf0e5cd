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
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		err = create(stderr, filepath.Join(dir, name), write)
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// create creates a file and reports that on stderr.
func create(stderr io.Writer, name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "wrote", name)
	return nil
}

// A pageFile is the name of a page to write; empty for none.
type pageFile string

// UnmarshalText checks the ending.
func (f *pageFile) UnmarshalText(text []byte) error {
	if filepath.Ext(string(text)) != ".html" {
		return fmt.Errorf("%q: the name must end in .html", text)
	}
	*f = pageFile(text)
	return nil
}

// write writes the page, if there is to be one.
func (f pageFile) write(stderr io.Writer, write func(io.Writer) error) error {
	if f == "" {
		return nil
	}
	if err := create(stderr, string(f), write); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
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

// Plainwords finds words that make technical prose a riddle: pronouns for requests
// and callers (who, nobody, those that), definitions without a noun ("is what"),
// and archaic turns. CONTRIBUTING.md says what to write instead. It reads the
// comments and string literals of Go files, and Markdown, YAML and HTML:
//
//	go run ./plainwords -root ../..
//
// It prints each place, and exits with 1 if there is one.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var riddle = regexp.MustCompile(`(?i)\b(who|whoever|whom|nobody|somebody|everybody|anybody|those that|` +
	`is what|are what|is that of|are those|of late|anew|in vain|so many|hears of|has to go|makes place|come to nothing)\b`)

// A place is a line of prose.
type place struct {
	file string
	line int
	text string
}

func main() {
	log.SetFlags(0)
	root := flag.String("root", ".", "the root of the checkout")
	flag.Parse()
	out, err := exec.Command("git", "-C", *root, "ls-files", "-z").Output()
	if err != nil {
		log.Fatalf("plainwords: git ls-files: %v", err)
	}
	found, lines := 0, 0
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if strings.Contains(name, "testdata/") || strings.HasPrefix(name, "internal/tools/plainwords/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(*root, name))
		if err != nil {
			continue // deleted, and not yet committed
		}
		for _, p := range prose(name, text) {
			lines++
			if words := riddle.FindAllString(p.text, -1); words != nil {
				found++
				fmt.Printf("%s:%d: %s: %s\n", p.file, p.line, strings.Join(words, ", "), strings.TrimSpace(p.text))
			}
		}
	}
	if found > 0 {
		log.Fatalf("plainwords: %d of %d lines of prose", found, lines)
	}
}

// prose returns the lines of a file that people read.
func prose(name string, text []byte) (places []place) {
	switch filepath.Ext(name) {
	case ".go":
		return goProse(name, text)
	case ".md", ".yaml", ".yml", ".html":
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			places = append(places, place{name, n, lines.Text()})
		}
	}
	return places
}

// goProse returns the comments of a Go file, and the strings of one that is no
// test.
func goProse(name string, text []byte) (places []place) {
	fset := token.NewFileSet()
	file := fset.AddFile(name, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		switch {
		case kind == token.EOF:
			return places
		case kind == token.COMMENT, kind == token.STRING && !strings.HasSuffix(name, "_test.go"):
			for n, line := range strings.Split(literal, "\n") {
				places = append(places, place{name, file.Line(pos) + n, line})
			}
		}
	}
}

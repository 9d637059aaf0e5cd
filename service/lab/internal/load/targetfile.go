package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Bounds of a list of targets.
const (
	MaxTargets    = 100_000
	maxTargetLine = 1 << 20 // bytes
)

// ReadTargets reads a list of HTTP requests. Each one is a line with a method and a URL,
// and below it lines with header fields, and @FILE for the body:
//
//	POST http://127.0.0.1:8000/orders
//	Content-Type: application/json
//	@order.json
//
// or a line of JSON with the fields method, url, header, and body (in base64) or text.
// Empty lines separate requests. Lines with # are comments. ReadTargets calls file for the
// content of a body. These are the two formats of vegeta.
func ReadTargets(r io.Reader, file func(name string) (string, error)) (targets []Target, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxTargetLine)
	p := targetParser{file: file}
	for number := 1; lines.Scan(); number++ {
		if err := p.line(strings.TrimSpace(lines.Text())); err != nil {
			return nil, fmt.Errorf("load: targets: line %d: %w", number, err)
		}
		if len(p.targets) > MaxTargets {
			return nil, fmt.Errorf("load: targets: more than %d", MaxTargets)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("load: targets: a line has more than %d bytes", maxTargetLine)
	case err != nil:
		return nil, fmt.Errorf("load: targets: %w", err)
	case len(p.targets) == 0:
		return nil, errors.New("load: targets: there are none")
	}
	return p.targets, nil
}

type targetParser struct {
	file    func(string) (string, error)
	targets []Target
	open    bool // the last target may get more lines
}

// line adds a line without space around it.
func (p *targetParser) line(text string) error {
	if strings.HasPrefix(text, "#") {
		return nil
	}
	if text == "" {
		p.open = false
		return nil
	}
	if text[0] == '{' {
		t, err := jsonTarget(text)
		p.targets, p.open = append(p.targets, t), false
		return err
	}
	if method, url, ok := requestLine(text); ok {
		p.targets, p.open = append(p.targets, Target{Method: method, URL: url, Header: http.Header{}}), true
		return nil
	}
	if !p.open {
		return fmt.Errorf("%q: want a method and a URL, such as GET http://127.0.0.1:8000/, or JSON", text)
	}
	t := &p.targets[len(p.targets)-1]
	if name, ok := strings.CutPrefix(text, "@"); ok {
		body, err := p.file(name)
		t.Body = body
		return err
	}
	name, value, ok := strings.Cut(text, ":")
	if !ok || strings.TrimSpace(name) == "" {
		return fmt.Errorf("%q: want a header field, such as Accept: text/html, or @FILE for the body", text)
	}
	t.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	return nil
}

// requestLine splits a method, which has only capital letters and hyphens, and a URL.
func requestLine(text string) (method, url string, ok bool) {
	method, url, ok = strings.Cut(text, " ")
	notMethod := func(r rune) bool { return (r < 'A' || r > 'Z') && r != '-' }
	url = strings.TrimSpace(url)
	return method, url, ok && url != "" && !strings.ContainsFunc(method, notMethod)
}

// fields are header fields, each with a value or a list of values.
type fields http.Header

func (f *fields) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*f = fields{}
	for name, values := range raw {
		var one string
		var all []string
		if json.Unmarshal(values, &one) == nil {
			all = []string{one}
		} else if err := json.Unmarshal(values, &all); err != nil {
			return fmt.Errorf("header %q: want a text or a list of texts", name)
		}
		for _, value := range all {
			http.Header(*f).Add(name, value)
		}
	}
	return nil
}

func jsonTarget(text string) (Target, error) {
	var t struct {
		Method string `json:"method"`
		URL    string `json:"url"`
		Header fields `json:"header"`
		Body   []byte `json:"body"`
		Text   string `json:"text"`
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	err := d.Decode(&t)
	switch {
	case err != nil:
		return Target{}, err
	case d.More():
		return Target{}, errors.New("want one JSON object in a line")
	case t.URL == "":
		return Target{}, errors.New("url is missing")
	case len(t.Body) > 0 && t.Text != "":
		return Target{}, errors.New("body and text exclude each other")
	}
	body := t.Text
	if len(t.Body) > 0 {
		body = string(t.Body)
	}
	return Target{Method: t.Method, URL: t.URL, Header: http.Header(t.Header), Body: body}, nil
}

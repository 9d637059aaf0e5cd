package main

import (
	"context"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/weir-go/weir/service/internal/server/adminapi"
)

// A topModel is weir top on a screen. Update and View are pure: what takes time
// is in the commands that Update returns.
type topModel struct {
	ctx      context.Context
	from     operator
	interval time.Duration
	by       string

	view
	asked int // explanations asked for: the last counts
}

// What comes in besides keys.
type (
	// readMsg is an answer; again says that it is the one that the next look waits for.
	readMsg struct {
		reading
		by    string
		err   error
		at    time.Time
		again bool
	}
	tickMsg      time.Time
	explainedMsg struct {
		adminapi.Explanation
		err error
		n   int
	}
)

func newTop(ctx context.Context, from operator, interval time.Duration, by string) topModel {
	return topModel{ctx: ctx, from: from, interval: interval, by: by, view: view{url: from.url, look: colors, live: true}}
}

func (m topModel) Init() tea.Cmd { return m.read(true) }

func (m topModel) read(again bool) tea.Cmd {
	return func() tea.Msg {
		r, err := m.from.read(m.ctx, m.by)
		return readMsg{r, m.by, err, time.Now(), again}
	}
}

func (m topModel) explain(key string) tea.Cmd {
	n := m.asked
	return func() tea.Msg {
		x, err := m.from.explain(m.ctx, key)
		return explainedMsg{x, err, n}
	}
}

func (m topModel) next() tea.Cmd {
	return tea.Tick(m.interval, func(at time.Time) tea.Msg { return tickMsg(at) })
}

func (m topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		m.now = time.Time(msg)
		if m.paused {
			return m, m.next()
		}
		return m, m.read(true)
	case readMsg:
		return m.heardOf(msg)
	case explainedMsg:
		if msg.n == m.asked && m.mode == explained {
			m.explanation, m.unexplained = msg.Explanation, msg.err
			m.answered = true
		}
	case tea.PasteMsg:
		if m.mode == asking {
			m.input = typed(m.input, msg.Content)
		}
	case tea.KeyPressMsg:
		if m.mode == asking {
			return m.ask(msg)
		}
		return m.press(msg)
	}
	return m, nil
}

func (m topModel) heardOf(msg readMsg) (tea.Model, tea.Cmd) {
	m.now = msg.at
	if m.err = msg.err; msg.err == nil {
		m.heard = msg.at
		if msg.by == m.by && !m.paused {
			m.reading = msg.reading
		}
	}
	if msg.again {
		return m, m.next()
	}
	return m, nil
}

// press does what a key stands for.
func (m topModel) press(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch key.String() {
	case "q", "ctrl+c":
		return m, tea.Quit
	case "d", "r":
		m.mode, m.paused = keys, false
		if m.by = "denied"; key.String() == "r" {
			m.by = "requests"
		}
		return m, m.read(false)
	case "p", "space":
		m.paused = !m.paused
	case "e", "/":
		m.mode, m.input = asking, ""
	case "?", "h":
		if m.mode == help {
			m.mode = keys
		} else {
			m.mode = help
		}
	case "esc":
		m.mode = keys
	}
	return m, nil
}

// ask edits the key that is to be explained.
func (m topModel) ask(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch key.String() {
	case "ctrl+c":
		return m, tea.Quit
	case "esc":
		m.mode = keys
	case "enter":
		if strings.TrimSpace(m.input) == "" {
			m.mode = keys
			return m, nil
		}
		m.mode, m.answered = explained, false
		m.asked++
		return m, m.explain(m.input)
	case "backspace":
		if r := []rune(m.input); len(r) > 0 {
			m.input = string(r[:len(r)-1])
		}
	case "ctrl+u":
		m.input = ""
	default:
		m.input = typed(m.input, key.Text)
	}
	return m, nil
}

// typed appends text to a key: keys have no control characters, and an end.
func typed(key, text string) string {
	const most = 1024
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	if len(key)+len(text) > most {
		return key
	}
	return key + text
}

func (m topModel) View() tea.View {
	v := tea.NewView(strings.Join(frame(&m.view), "\n"))
	v.AltScreen = true
	v.WindowTitle = "weir top"
	return v
}

package main

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"

	"github.com/lash-go/lash/cmd/internal/terminal"
)

// outputFlags are about output to a terminal.
type outputFlags struct {
	Color   string `enum:"auto,always,never" default:"auto" group:"Output" help:"Colours: auto, always or never. Auto colours on a terminal, unless NO_COLOR is set. Default: ${default}."`
	NoPager bool   `group:"Output" help:"Do not page. By default output to a terminal passes $$PAGER, or less where that is installed."`
}

// colored reports whether output has colours.
func (e *env) colored() bool {
	return e.output.Color == "always" || e.output.Color == "auto" && e.OnTerminal() && e.Env("NO_COLOR") == ""
}

// colorTo sets the writer of colours. Without colours it is nil.
func (e *env) colorTo(w *terminal.Writer) {
	e.color = nil
	if e.colored() {
		e.color = w.Color
	}
}

// painted writes a text in an ANSI colour, where output has colours.
func (e *env) painted(code, text string) {
	if e.color == nil || text == "" {
		e.printf("%s", text)
		return
	}
	_ = e.color(code) // Out has the same error
	e.printf("%s", text)
	_ = e.color("0")
}

// paged runs show with its output in a pager, if the output is for a terminal and a pager exists. A user who leaves the
// pager early ends show without an error.
func (e *env) paged(show func() error) error {
	command := e.pager()
	if command == nil {
		return show()
	}
	pipe, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return show() // a broken pager hides nothing
	}
	gone := &leftEarly{w: pipe}
	block := bufio.NewWriter(gone)
	out := terminal.New(block)
	before := e.Out
	e.Out = out
	e.colorTo(out)
	err = show()
	err = errors.Join(err, out.Close(), block.Flush())
	_ = pipe.Close()
	_ = command.Wait() // its status says nothing about the output
	e.Out = before
	if gone.left {
		return nil
	}
	return err
}

// leftEarly is the input of a pager. It notes that the pager ended before the output did.
type leftEarly struct {
	w    io.Writer
	left bool
}

// Write implements [io.Writer].
func (l *leftEarly) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	l.left = l.left || err != nil
	return n, err
}

// pager is the command of the pager, or nil.
func (e *env) pager() *exec.Cmd {
	if e.output.NoPager || !e.OnTerminal() {
		return nil
	}
	command := e.Env("PAGER")
	if command == "" {
		if _, err := exec.LookPath("less"); err != nil {
			return nil
		}
		command = "less"
	}
	c := exec.Command("sh", "-c", command) //nolint:noctx // the user ends it
	c.Stdout, c.Stderr = e.Screen, os.Stderr
	c.Env = append(os.Environ(), "LESS="+cmp.Or(e.Env("LESS"), "FRX"))
	return c
}

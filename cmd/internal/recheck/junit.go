package recheck

import (
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lash-go/lash/events/localfile"
)

// junitSuites is the root of JUnit's XML, as tools for continuous integration read it.
type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suite   junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr,omitempty"`
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
	Skipped *junitProblem `xml:"skipped"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes a report with one test case a session: a difference is a failure, a history that cannot be read an
// error, and one that is compared up to a redacted payload is skipped.
func (r *Report) WriteJUnit(path, command string) error {
	s := junitSuite{Name: command, Tests: r.Sessions, Failures: r.Differences, Errors: r.Problems, Cases: []junitCase{}}
	for _, one := range r.Results {
		c := junitCase{Name: string(one.ID), Class: strings.ReplaceAll(command, " ", "."), File: one.File}
		if c.Name == "" {
			c.Name = filepath.Base(one.File)
		}
		if d := one.Difference; d != nil {
			c.Failure = &junitProblem{Message: fmt.Sprintf("event %s is decided in another way", d.Event), Text: d.text()}
		}
		if one.Problem != "" {
			c.Error = &junitProblem{Message: one.Problem}
		}
		if c.Failure == nil && c.Error == nil && one.Redacted > 0 {
			c.Skipped = &junitProblem{Message: one.partly()}
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
	}
	body, err := xml.MarshalIndent(junitSuites{Suite: s}, "", "  ")
	if err != nil {
		return err
	}
	return localfile.Write(path, append([]byte(xml.Header), append(body, '\n')...))
}

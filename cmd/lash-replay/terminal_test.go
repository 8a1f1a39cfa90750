package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// hostile is text with control sequences and direction marks.
const hostile = "\x1b[2J\x1b]0;t\a\r\u009b2J\u202egpj\u2066\u200f\u061c\u200b\U000e0041"

// makeHostile appends hostile to every string that keep accepts, and to bytes that have no other format.
func makeHostile(v reflect.Value, accept func() bool) (count int) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return makeHostile(v.Elem(), accept)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[events.BlobRef]() {
			return 0 // without such a body nothing is exported
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				count += makeHostile(v.Field(i), accept)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return changed(v, reflect.ValueOf([]byte(`{"`+"\x7f\u202e"+`":"`+"\u009b"+`"}`)).Convert(v.Type()), accept)
		}
		for i := range v.Len() {
			count += makeHostile(v.Index(i), accept)
		}
	case reflect.String:
		return changed(v, reflect.ValueOf(v.String()+hostile).Convert(v.Type()), accept)
	default:
	}
	return count
}

func changed(v, to reflect.Value, accept func() bool) int {
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	v.Set(to)
	if !accept() {
		v.Set(was)
		return 0
	}
	return 1
}

// hostileArchive writes an archive with hostile text in every field that may have any.
func hostileArchive(t *testing.T) string {
	t.Helper()
	h := historyOfAllKinds()
	readable := func() bool {
		s := projector.New("bad")
		for i, c := range h.list {
			if c.Validate() != nil || s.Apply(events.Entry{Seq: events.Seq(i + 1), Commit: c}) != nil {
				return false
			}
		}
		return true
	}
	count := 0
	for _, c := range h.list {
		for i := range c.Events {
			count += makeHostile(reflect.ValueOf(c.Events[i].Payload), readable)
		}
		count += changed(reflect.ValueOf(&c.Actor.ID).Elem(), reflect.ValueOf(c.Actor.ID+hostile), readable)
		count += changed(reflect.ValueOf(&c.Cause).Elem(), reflect.ValueOf(c.Cause+hostile), readable)
	}
	if count < 100 {
		t.Fatalf("got %d places for hostile text", count)
	}
	path := filepath.Join(t.TempDir(), "h.lash")
	runtest.NoError(t, writeArchive(path, h.list))
	return path
}

// invocations are the command lines of every command: one without switches, and one with each switch.
func invocations(t *testing.T) (list [][]string) {
	t.Helper()
	parser, err := kong.New(&cli{})
	runtest.NoError(t, err)
	for _, leaf := range parser.Model.Leaves(false) {
		base := []string{leaf.Name}
		list = append(list, base, append(slices.Clone(base), "--help"))
		for _, f := range leaf.Flags {
			if f.IsBool() {
				list = append(list, append(slices.Clone(base), "--"+f.Name))
			}
		}
	}
	return list
}

// TestLongNothingActsOnTheTerminal runs every command on a history of hostile text.
func TestLongNothingActsOnTheTerminal(t *testing.T) {
	t.Parallel()
	path := hostileArchive(t)
	for _, args := range invocations(t) {
		if args[0] == "export" {
			args = append(args, "--out", filepath.Join(t.TempDir(), "out.lash"))
			if slices.Contains(args, "--children") {
				args = append(args, "--format", "record")
			}
		}
		for _, target := range []string{path, filepath.Join(t.TempDir(), "no "+hostile), "nats://me:secret@host" + hostile} {
			var out, errs bytes.Buffer
			args := append(slices.Clone(args), target)
			if args[0] == "search" {
				args = slices.Insert(args, len(args)-1, "a", "--file")
			}
			if slices.Contains(args, "--all") {
				args = slices.Insert(args, len(args)-1, "--file")
			}
			code := run(t.Context(), args, &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
			if target == path && code == exitError && args[0] != "ui" { // which serves no history that does not verify
				t.Errorf("%q: got %s", args, errs.String())
			}
			output := out.String() + errs.String()
			for _, r := range output {
				if r != '\n' && r != '\t' && (unicode.In(r, unicode.Cc, unicode.Cf) || r == unicode.ReplacementChar) {
					t.Errorf("%q: got U+%04X in %.300q", args, r, output[max(0, strings.IndexRune(output, r)-100):])
					break
				}
			}
			if strings.Contains(output, "secret") {
				t.Errorf("%q: got %q, want no password", args, output)
			}
			if slices.Contains(args, "--json") && target == path {
				for line := json.NewDecoder(&out); line.More(); {
					if err := line.Decode(new(any)); err != nil {
						t.Fatalf("%q: no JSON: %v", args, err)
					}
				}
			}
		}
	}
}

// TestLongPasswordIsNotRepeated runs every command with a URL that the server refuses, and with an invalid one.
func TestLongPasswordIsNotRepeated(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, Username: "me", Password: "another"})
	runtest.NoError(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(time.Minute) {
		t.Fatal("the server takes no connections")
	}
	for _, args := range invocations(t) {
		if args[0] == "export" {
			args = append(args, "--out", filepath.Join(t.TempDir(), "out.lash"))
			if slices.Contains(args, "--children") {
				args = append(args, "--format", "record")
			}
		}
		if !slices.Contains(args, "--all") && args[0] != "ls" {
			args = append(args, "s")
		}
		for i, user := range []string{"me:secret", "secret", "me:se/secret", "me:a,secret", "me:%zzsecret", "me:a secret", "me:12,34secret"} {
			for _, url := range []string{"nats://" + user + "@" + ns.Addr().String(), user + "@127.0.0.1:none", "nats://" + user + "@127.0.0.1:1,nats://127.0.0.1:2"} {
				if i > 0 && args[0] != "ls" {
					continue // all commands read a URL in the same way
				}
				var out, errs bytes.Buffer
				args := append(slices.Clone(args), "--nats", url)
				code := run(t.Context(), args, &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
				if code != exitError && !slices.Contains(args, "--help") {
					t.Errorf("%q: got exit code %d", args, code)
				}
				if output := out.String() + errs.String(); strings.Contains(output, "secret") {
					t.Errorf("%q: got %q, want no password", args, output)
				}
			}
		}
	}
}

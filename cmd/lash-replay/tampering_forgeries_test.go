package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/lash-go/lash/events"
)

// forgery is what a tampering program did, and what must be named.
type forgery struct {
	name    string
	list    []stored
	seqs    []events.Seq      // each is named
	ids     []events.CommitID // one is named, besides
	cut     bool              // needs the auditor's head
	redacts bool              // no fault, but listed
	open    bool              // the commits after it have moved: others may be named too
}

// attack is an untouched history, and the tools to change it.
type attack struct {
	*rand.Rand
	untouched []stored
	fresh     int
}

func (a *attack) decode(i int) *events.Commit {
	c, err := events.Decode(a.untouched[i].data)
	if err != nil {
		panic(err)
	}
	return c
}

func (a *attack) commitID() events.CommitID {
	a.fresh++
	return events.CommitID(fmt.Sprintf("01JD6Z%020d", a.fresh))
}

func encoded(c *events.Commit) stored {
	data, err := events.Encode(c)
	if err != nil {
		panic(err)
	}
	return stored{data, c.ID}
}

// with replaces a commit.
func (a *attack) with(name string, i int, s stored) forgery {
	list := slices.Clone(a.untouched)
	list[i] = s
	return forgery{name: name, list: list, seqs: []events.Seq{events.Seq(i + 1)}, ids: []events.CommitID{s.id}}
}

// forgeries are the kinds of changes. Each returns false where it changes nothing.
func forgeries() map[string]func(*attack, int) (forgery, bool) {
	return map[string]func(*attack, int) (forgery, bool){
		"bit":      (*attack).flip,
		"envelope": (*attack).envelope,
		"payload":  (*attack).payload,
		"events":   (*attack).events,
		"form":     (*attack).form,
		"remove":   (*attack).remove,
		"insert":   (*attack).insert,
		"swap":     (*attack).swap,
		"repeat":   (*attack).repeat,
		"cut":      (*attack).cut,
		"strip":    (*attack).strip,
		"redact":   (*attack).redact,
		"several":  (*attack).several,
	}
}

func (a *attack) flip(i int) (forgery, bool) {
	data := bytes.Clone(a.untouched[i].data)
	data[a.IntN(len(data))] ^= 1 << a.IntN(8)
	s := stored{data: data}
	if c, err := events.Decode(data); err == nil && c.Session == a.decode(i).Session {
		s.id = c.ID
	}
	return a.with("a bit", i, s), true
}

func (a *attack) envelope(i int) (forgery, bool) {
	c := a.decode(i)
	switch a.IntN(6) {
	case 0:
		c.At += events.Millis(a.IntN(1000) + 1)
	case 1:
		c.Cause += "x"
	case 2:
		c.Actor.ID += "x"
	case 3:
		c.ID = a.commitID()
	case 4:
		c.Salt = slices.Clone(c.Salt)
		c.Salt[a.IntN(len(c.Salt))]++
	case 5:
		c.Key, c.Digest = c.Key+"k", c.Digest+"d"
	}
	return a.with("envelope", i, encoded(c)), true
}

func (a *attack) payload(i int) (forgery, bool) {
	c := a.decode(i)
	ev := &c.Events[a.IntN(len(c.Events))]
	switch p := ev.Payload.(type) {
	case *events.TurnRequested:
		p.Input.Parts[0].Text += "!"
	case *events.ModelReplied:
		p.Usage.Output++
	case *events.TurnCompleted:
		p.End = events.EndFailed
		p.Issue = events.Issue{Kind: "runtime", Code: "x", Message: "forged"}
	case *events.AuditHeadSigned:
		field := [][]byte{p.Key, p.Signature, p.Edge, p.Leaves}[a.IntN(4)]
		if len(field) == 0 {
			p.Certificate += "x"
		} else {
			field[a.IntN(len(field))]++
		}
	default:
		ev.Turn += "x"
	}
	return a.with("payload", i, encoded(c)), true
}

func (a *attack) events(i int) (forgery, bool) {
	c := a.decode(i)
	switch n := a.IntN(3); {
	case n == 0 && len(c.Events) > 1:
		k := a.IntN(len(c.Events))
		c.Events = slices.Delete(c.Events, k, k+1)
	case n == 1 && len(c.Events) > 1:
		slices.Reverse(c.Events)
	default:
		c.Events = slices.Insert(c.Events, a.IntN(len(c.Events)+1), events.Of("", &events.TaskHidden{Task: "k", Label: "forged"}))
	}
	return a.with("events", i, encoded(c)), true
}

// form writes the same values in another encoding.
func (a *attack) form(i int) (forgery, bool) {
	data := a.untouched[i].data
	for _, tag := range []string{"\xa1n\xc4", "\xa1p", "\xa1k", "\xa1t\xcf"} {
		long := "\xd9\x01" + tag[1:]
		if other := bytes.Replace(data, []byte(tag), []byte(long), 1); !bytes.Equal(other, data) && a.IntN(2) == 0 {
			return a.with("form", i, stored{other, a.untouched[i].id}), true
		}
	}
	return forgery{}, false
}

func (a *attack) remove(i int) (forgery, bool) {
	return forgery{name: "remove", list: slices.Delete(slices.Clone(a.untouched), i, i+1), seqs: []events.Seq{events.Seq(i + 1)}, cut: i == len(a.untouched)-1, open: true}, true
}

func (a *attack) insert(i int) (forgery, bool) {
	c := a.decode(a.IntN(len(a.untouched)))
	c.ID = a.commitID()
	return forgery{
		name: "insert", list: slices.Insert(slices.Clone(a.untouched), i, encoded(c)),
		seqs: []events.Seq{events.Seq(i + 1)}, ids: []events.CommitID{c.ID}, open: true,
	}, true
}

func (a *attack) swap(i int) (forgery, bool) {
	j := a.IntN(len(a.untouched))
	list := slices.Clone(a.untouched)
	list[i], list[j] = list[j], list[i]
	return forgery{name: "swap", list: list, ids: []events.CommitID{list[i].id, list[j].id}, open: true}, i != j
}

func (a *attack) repeat(i int) (forgery, bool) {
	at := a.IntN(len(a.untouched))
	again := a.untouched[i]
	return forgery{name: "repeat", list: slices.Insert(slices.Clone(a.untouched), at, again), ids: []events.CommitID{again.id}, open: true}, true
}

func (a *attack) cut(i int) (forgery, bool) {
	if i == 0 {
		return forgery{}, false
	}
	return forgery{name: "cut", list: a.untouched[:i], seqs: []events.Seq{events.Seq(i + 1)}, cut: true, open: true}, true
}

// strip removes all heads from some commit on.
func (a *attack) strip(i int) (forgery, bool) {
	ch := forgery{name: "strip", list: slices.Clone(a.untouched), open: true}
	for k := i; k < len(a.untouched); k++ {
		c := a.decode(k)
		if last := len(c.Events) - 1; c.Events[last].Kind == events.KindAuditHeadSigned {
			c.Events = c.Events[:last]
			ch.list[k] = encoded(c)
			if ch.ids == nil {
				ch.ids, ch.seqs = []events.CommitID{c.ID}, []events.Seq{events.Seq(k + 1)}
			}
		}
	}
	return ch, ch.ids != nil
}

func (a *attack) redact(i int) (forgery, bool) {
	data, err := events.Redact(a.untouched[i].data, func(int, events.Kind) bool { return a.IntN(2) == 0 })
	if err != nil {
		panic(err)
	}
	ch := a.with("redact", i, stored{data, a.untouched[i].id})
	ch.redacts = true
	return ch, !bytes.Equal(data, a.untouched[i].data)
}

// several alters some commits at once.
func (a *attack) several(i int) (forgery, bool) {
	ch := forgery{name: "several", list: slices.Clone(a.untouched), open: true}
	for k := range len(a.untouched) {
		if k == i || a.IntN(6) == 0 {
			c := a.decode(k)
			c.Cause += "forged"
			ch.list[k] = encoded(c)
			ch.seqs = append(ch.seqs, events.Seq(k+1))
		}
	}
	return ch, true
}

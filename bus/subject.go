package bus

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
)

// names builds and parses every subject, stream and bucket. Nothing else in
// the project writes one. Ids were checked before they come here.
type names struct{ prefix string }

// Class is a class of queued work.
type Class string

// The classes.
const (
	ClassTurn Class = "turn" // commands that ask for turns
	ClassTask Class = "task" // runs of background tasks
)

// sessionStream is the stream of a session that goes on after this revision of
// its archive's entry, 0 for none. Each has a name of its own, so that whoever
// deletes an archived one late never hits the next.
func (n names) sessionStream(id events.SessionID, revision uint64) string {
	name := n.prefix + "-s-" + string(id)
	if revision > 0 {
		name += "@" + strconv.FormatUint(revision, 10)
	}
	return name
}

// sessionOf is the inverse of sessionStream.
func (n names) sessionOf(stream string) (events.SessionID, bool) {
	rest, ok := strings.CutPrefix(stream, n.prefix+"-s-")
	id, _, _ := strings.Cut(rest, "@")
	return events.SessionID(id), ok
}

func (n names) archiveStream() string { return n.prefix + "-archive" }
func (n names) archiveAll() string    { return n.prefix + ".archive.*" }

func (n names) archive(id events.SessionID) string { return n.prefix + ".archive." + string(id) }

// archivedSession is the inverse of archive.
func (n names) archivedSession(subject string) events.SessionID {
	return events.SessionID(strings.TrimPrefix(subject, n.prefix+".archive."))
}

func (n names) sessionAll(id events.SessionID) string { return n.prefix + ".s." + string(id) + ".>" }

func (n names) commit(c *events.Commit) string {
	return n.prefix + ".s." + string(c.Session) + "." + c.Events[0].Kind.Family()
}

func (n names) liveAll(id events.SessionID) string { return n.prefix + ".live." + string(id) + ".>" }

func (n names) workStream() string { return n.prefix + "-work" }
func (n names) workAll() string    { return n.prefix + ".work.>" }

func (n names) workClass(c Class) string { return n.prefix + ".work." + string(c) + ".>" }

func (n names) work(c Class, session events.SessionID, id string) string {
	return n.prefix + ".work." + string(c) + "." + string(session) + "." + id
}

// parseWork is the inverse of work.
func (n names) parseWork(subject string) (session events.SessionID, id string, ok bool) {
	rest, ok := strings.CutPrefix(subject, n.prefix+".work.")
	tokens := strings.Split(rest, ".")
	if !ok || len(tokens) != 3 {
		return "", "", false
	}
	return events.SessionID(tokens[1]), tokens[2], true
}

func (n names) dirtyStream() string { return n.prefix + "-dirty" }
func (n names) dirtyAll() string    { return n.prefix + ".dirty.*" }

func (n names) dirty(id events.SessionID) string { return n.prefix + ".dirty." + string(id) }

// parseDirty is the inverse of dirty.
func (n names) parseDirty(subject string) (events.SessionID, bool) {
	id, ok := strings.CutPrefix(subject, n.prefix+".dirty.")
	return events.SessionID(id), ok
}

func (n names) deltaStream() string { return n.prefix + "-delta" }
func (n names) deltaAll() string    { return n.prefix + ".delta.>" }

func (n names) delta(session events.SessionID, turn events.TurnID) string {
	return n.prefix + ".delta." + string(session) + "." + string(turn)
}

func (n names) deltaSession(session events.SessionID) string {
	return n.prefix + ".delta." + string(session) + ".*"
}

// poke tells one worker that a session it runs has moved.
func (n names) poke(worker events.WorkerID) string { return n.prefix + ".poke." + string(worker) }

// ask puts a question to one worker.
func (n names) ask(worker events.WorkerID) string { return n.prefix + ".ask." + string(worker) }

// alive is where workers say that they are there.
func (n names) alive() string { return n.prefix + ".alive" }

// ack is what the server takes for the word of whoever holds a delivery of a
// message, for any delivery number that is not settled yet.
func (n names) ack(c Class, message, delivery uint64) string {
	return fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.0.0", n.workStream(), c, message, delivery)
}

func (n names) directory() string { return n.prefix + "-sessions" }
func (n names) catalogs() string  { return n.prefix + "-catalog" }
func (n names) snapshots() string { return n.prefix + "-snapshots" }
func (n names) blobs() string     { return n.prefix + "-blobs" }

package bus

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// names builds and parses the name of every subject, stream and bucket. No other code does. Ids are checked before
// they get here.
type names struct{ prefix string }

// Subjects of the server's API: they list streams page by page, and return one message of a stream.
const (
	apiAll         = "$JS.API."
	apiStreamNames = "$JS.API.STREAM.NAMES"
	apiStreamList  = "$JS.API.STREAM.LIST"
	apiDirectGet   = "$JS.API.DIRECT.GET."
	apiLeaderGet   = "$JS.API.STREAM.MSG.GET."
)

// Class is a class of wakes.
type Class string

// TurnClasses are the classes whose wakes are those of sessions. The others' are those of tasks.
func TurnClasses() []Class { return []Class{ClassTurn, ClassAgent} }

// OfTurns reports whether a class is one of [TurnClasses].
func (c Class) OfTurns() bool { return slices.Contains(TurnClasses(), c) }

// Values of [Class].
const (
	ClassTurn  Class = "turn"  // of sessions whose turns need a worker
	ClassAgent Class = "agent" // of agents' sessions, whose turns count against a limit of their own
	ClassTask  Class = "task"  // of background tasks
	ClassTool  Class = "tool"  // of tool calls that run on another node than the turn
)

// firstStream is the first stream of a session.
func (n names) firstStream(id events.SessionID) string { return n.prefix + "-s-" + string(id) }

// nextStream is a stream in which a session continues after its archive. Its name is unique, so a late delete hits no
// other stream.
func (n names) nextStream(id events.SessionID, nonce string) string {
	return n.firstStream(id) + "@" + nonce
}

// opening is the subject of such a stream until it is bound to the session's subjects.
func (n names) opening(id events.SessionID, nonce string) string {
	return n.prefix + ".opening." + string(id) + "." + nonce
}

func (n names) openingAll() string { return n.prefix + ".opening.>" }

func (n names) isOpening(subject string) bool {
	return strings.HasPrefix(subject, n.prefix+".opening.")
}

// sessionOf is the inverse of firstStream and nextStream.
func (n names) sessionOf(stream string) (events.SessionID, bool) {
	rest, ok := strings.CutPrefix(stream, n.prefix+"-s-")
	id, _, _ := strings.Cut(rest, "@")
	return events.SessionID(id), ok
}

func (n names) archiveStream() string { return n.prefix + "-archive" }
func (n names) archiveAll() string    { return n.prefix + ".archive.*" }

func (n names) archive(id events.SessionID) string { return n.prefix + ".archive." + string(id) }

// erased marks a session that has only its tombstone left.
func (n names) erased(id events.SessionID) string { return n.prefix + ".erased." + string(id) }
func (n names) erasedAll() string                 { return n.prefix + ".erased.*" }

// sessionAfter is the session of a subject that is a prefix and the session. ok is false for any other subject.
func sessionAfter(prefix, subject string) (id events.SessionID, ok bool) {
	rest, ok := strings.CutPrefix(subject, prefix)
	if !ok || rest == "" || strings.Contains(rest, ".") {
		return "", false
	}
	return events.SessionID(rest), true
}

// parseErased is the inverse of erased.
func (n names) parseErased(subject string) (id events.SessionID, ok bool) {
	return sessionAfter(n.prefix+".erased.", subject)
}

// parseArchive is the inverse of archive.
func (n names) parseArchive(subject string) (id events.SessionID, ok bool) {
	return sessionAfter(n.prefix+".archive.", subject)
}

// sessions matches every commit of every session.
func (n names) sessions() string { return n.prefix + ".s.>" }

func (n names) sessionAll(id events.SessionID) string { return n.prefix + ".s." + string(id) + ".>" }

func (n names) commit(c *events.Commit) string {
	return n.prefix + ".s." + string(c.Session) + "." + c.Events[0].Kind.Family()
}

// liveEverySession matches every live commit of every session.
func (n names) liveEverySession() string { return n.prefix + ".live.*.>" }

// parseLive is the session of a live subject.
func (n names) parseLive(subject string) (id events.SessionID, ok bool) {
	rest, ok := strings.CutPrefix(subject, n.prefix+".live.")
	session, family, _ := strings.Cut(rest, ".")
	if !ok || session == "" || family == "" {
		return "", false
	}
	return events.SessionID(session), true
}

// ofSession reports whether a stream is one of the session of a live subject.
func ofSession(stream, subject string) bool {
	prefix, rest, _ := strings.Cut(subject, ".live.")
	session, _, _ := strings.Cut(rest, ".")
	id, ok := names{prefix}.sessionOf(stream)
	return ok && string(id) == session
}

func (n names) liveAll(id events.SessionID) string { return n.prefix + ".live." + string(id) + ".>" }

// The words way, tries and ask in subjects are older than the names of their functions. Users have permissions of these
// subjects, so they stay.

func (n names) priorityAll() string                 { return n.prefix + ".way.*" }
func (n names) priority(id events.SessionID) string { return n.prefix + ".way." + string(id) }

// parsePriority is the inverse of priority.
func (n names) parsePriority(subject string) (id events.SessionID, ok bool) {
	return sessionAfter(n.prefix+".way.", subject)
}

func (n names) workStream() string { return n.prefix + "-work" }
func (n names) workAll() string    { return n.prefix + ".work.>" }

func (n names) workClass(c Class) string { return n.prefix + ".work." + string(c) + ".>" }

func (n names) work(key WakeKey) string {
	subject := n.prefix + ".work." + string(key.Class) + "." + string(key.Session)
	if key.Task != "" {
		subject += "." + string(key.Task)
	}
	return subject
}

// parseWork is the inverse of work.
func (n names) parseWork(subject string) (key WakeKey, ok bool) {
	rest, ok := strings.CutPrefix(subject, n.prefix+".work.")
	tokens := strings.Split(rest, ".")
	if !ok || len(tokens) < 2 || len(tokens) > 3 {
		return WakeKey{}, false
	}
	key = WakeKey{Class: Class(tokens[0]), Session: events.SessionID(tokens[1])}
	if len(tokens) == 3 {
		key.Task = events.TaskID(tokens[2])
	}
	return key, key.Class.OfTurns() == (key.Task == "")
}

func (n names) deadStream() string { return n.prefix + "-dead" }
func (n names) deadAll() string    { return n.prefix + ".dead.>" }
func (n names) trialAll() string   { return n.prefix + ".tries.>" }

func (n names) dead(session events.SessionID) string { return n.prefix + ".dead." + string(session) }
func (n names) deadLetters() string                  { return n.prefix + ".dead.*" }

// deadOf is the inverse of dead.
func (n names) deadOf(subject string) events.SessionID {
	return events.SessionID(strings.TrimPrefix(subject, n.dead("")))
}

func (n names) trial(key TrialKey) string {
	subject := n.prefix + ".tries." + string(key.Session) + "." + string(key.Of)
	if key.Turn != "" {
		subject += "." + string(key.Turn)
	}
	return subject
}

func (n names) trialsOf(session events.SessionID) string {
	return n.prefix + ".tries." + string(session) + ".>"
}

func (n names) timerStream() string { return n.prefix + "-timers" }
func (n names) timerAll() string    { return n.prefix + ".timer.>" }
func (n names) timersAt() string    { return n.prefix + ".timer.at.>" }
func (n names) timersDue() string   { return n.prefix + ".timer.due.>" }

// timerAt is where a session's timer waits; timerDue is where the server publishes it at its time.
func (n names) timerAt(session events.SessionID) string {
	return n.prefix + ".timer.at." + string(session)
}

func (n names) timerDue(session events.SessionID) string {
	return n.prefix + ".timer.due." + string(session)
}

func (n names) timerSession(id events.SessionID) string {
	return n.prefix + ".timer.*." + string(id)
}

// parseTimer is the inverse of timerAt and of timerDue.
func (n names) parseTimer(subject string) (session events.SessionID, ok bool) {
	rest, ok := strings.CutPrefix(subject, n.prefix+".timer.")
	tokens := strings.Split(rest, ".")
	if !ok || len(tokens) != 2 || tokens[0] != "at" && tokens[0] != "due" {
		return "", false
	}
	return events.SessionID(tokens[1]), true
}

func (n names) dirtyStream() string { return n.prefix + "-dirty" }
func (n names) dirtyAll() string    { return n.prefix + ".dirty.*" }

func (n names) dirty(id events.SessionID) string { return n.prefix + ".dirty." + string(id) }

// parseDirty is the inverse of dirty.
func (n names) parseDirty(subject string) (id events.SessionID, ok bool) {
	return sessionAfter(n.prefix+".dirty.", subject)
}

func (n names) deltaStream() string { return n.prefix + "-delta" }
func (n names) deltaAll() string    { return n.prefix + ".delta.>" }

func (n names) delta(session events.SessionID, turn events.TurnID) string {
	return n.prefix + ".delta." + string(session) + "." + string(turn)
}

// output has a last token that no turn has: readers of a turn's deltas do not read it.
func (n names) output(session events.SessionID) string {
	return n.prefix + ".delta." + string(session) + ".=output"
}

// removed is where a process says that it removed texts of a session. It has a last token that no turn has, among the subjects of deltas,
// which every process receives that caches or watches sessions.
func (n names) removed(session events.SessionID) string {
	return n.prefix + ".delta." + string(session) + removedToken
}
func (n names) removedAll() string { return n.removed("*") }

const removedToken = ".=removed"

// parseRemoved is the inverse of removed.
func (n names) parseRemoved(subject string) (id events.SessionID, ok bool) {
	subject, ok = strings.CutSuffix(subject, removedToken)
	if !ok {
		return "", false
	}
	return sessionAfter(n.prefix+".delta.", subject)
}

func (n names) deltaSession(session events.SessionID) string {
	return n.prefix + ".delta." + string(session) + ".*"
}

// notify is where a worker receives the sessions that have new commits.
func (n names) notify(worker events.WorkerID) string { return n.prefix + ".notify." + string(worker) }

// workerRequest is where one worker receives requests.
func (n names) workerRequest(worker events.WorkerID) string {
	return n.prefix + ".ask." + string(worker)
}

// taskWakes matches the wakes of a session's tasks.
func (n names) taskWakes(id events.SessionID) string {
	return n.prefix + ".work.*." + string(id) + ".>"
}

// operation is where nodes receive requests for an operation of the session service.
func (n names) operation(op string) string { return n.prefix + ".api." + op }

// reads starts the subjects where reads of other accounts arrive. The server's API continues them. To the readers' accounts they have
// the names of that API.
func (n names) reads(of Readers) string { return n.prefix + "." + string(of) + "." }

// inboxes is the first token of reply subjects.
const inboxes = "_INBOX"

// isInbox reports whether a subject is a reply subject. The requester chooses the reply subject, and may not have the
// right to publish to it. A node that answers has more rights: an answer to a subject of the server's API would be
// executed.
func isInbox(subject string) bool { return strings.HasPrefix(subject, inboxes+".") }

// crossed starts the reply subject that the server writes in place of an inbox for a request from another account.
const crossed = "_R_."

// isReply reports whether a subject is an inbox, in this account or another.
func isReply(subject string) bool { return isInbox(subject) || strings.HasPrefix(subject, crossed) }

// service is the name of the session service.
func (n names) service() string { return n.prefix + "-api" }

// alive is where workers announce themselves.
func (n names) alive() string { return n.prefix + ".alive" }

func (n names) directory() string { return n.prefix + "-sessions" }
func (n names) catalogs() string  { return n.prefix + "-catalog" }
func (n names) snapshots() string { return n.prefix + "-snapshots" }
func (n names) index() string     { return n.prefix + "-index" }
func (n names) manifests() string { return n.prefix + "-plugins" }

// pluginRequests matches the requests of a plugin to nodes.
func (n names) pluginRequests(plugin string) string { return n.prefix + ".plugins." + plugin + ".*" }

func (n names) parsePluginRequest(subject string) (plugin, op string) {
	plugin, op, _ = strings.Cut(strings.TrimPrefix(subject, n.prefix+".plugins."), ".")
	return plugin, op
}

// pluginSigns matches the signs of life of all instances of a plugin.
func (n names) pluginSigns(plugin string) string { return n.prefix + ".plugin-live." + plugin + ".*" }

func (n names) parsePluginSign(subject string) (plugin, instance string) {
	plugin, instance, _ = strings.Cut(strings.TrimPrefix(subject, n.prefix+".plugin-live."), ".")
	return plugin, instance
}

// instance is where an instance of a plugin receives messages of nodes.
func (n names) instance(plugin, instance, verb string) string {
	return n.prefix + ".plugin." + plugin + "." + instance + "." + verb
}

// pluginEvent is where nodes store events for a plugin that observes sessions.
func (n names) pluginEvent(plugin string) string { return n.prefix + ".plugin-event." + plugin }
func (n names) pluginEventStream() string        { return n.prefix + "-plugin-events" }

func (n names) blobs() string { return n.prefix + "-blobs" }

// rowStream is the stream of a bucket's rows.
func (n names) rowStream(bucket string) string { return "KV_" + bucket }
func (n names) rows(bucket string) string      { return n.row(bucket, "*") }

func (n names) row(bucket string, id events.SessionID) string {
	return "$KV." + bucket + "." + string(id)
}

// parseRow is the inverse of row.
func (n names) parseRow(bucket, subject string) (id events.SessionID, ok bool) {
	return sessionAfter("$KV."+bucket+".", subject)
}

// blobStream is the stream of blobs: their descriptions and chunks.
func (n names) blobStream() string { return "OBJ_" + n.blobs() }

func (n names) blobMeta(digest string) string {
	return "$O." + n.blobs() + ".M." + base64.URLEncoding.EncodeToString([]byte(digest))
}
func (n names) blobChunks(content string) string { return "$O." + n.blobs() + ".C." + content }

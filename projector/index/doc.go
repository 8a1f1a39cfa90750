// Package index has what a search finds of a session, as one small row: its words, and the names of tools, actors and
// outcomes; and packs of rows. It imports events only, and is pure.
//
// A [Row] is a projection: it is made from the commits of a history in order, and can be made again. [Plan.May] has no
// false negative for the texts that [Of] lists: a session that may not match does not match. A session that may match
// is read, and its events decide, by the same [Of].
//
// # Words
//
// A word is a run of letters, marks and digits in lower case, of at most [WordBytes] bytes; of a longer one the
// beginning counts. Each character of a script without blanks between words, such as Han, is a word. The words of a row
// are sorted and each has the beginning that it shares with the one before in one number. For 40 recorded chats of
// 15 KB each this takes 2.0 KB a session, and 1.5 KB with zlib.
// A filter of trigrams with 5 bits each (1.4 KB) is not smaller by much, and most of its trigrams are in every session.
//
// # Packs
//
// A [Pack] has many rows by word: each word once, with the rows that have it. It is a fifth of the rows, and [Pack.Test] finds in it what [Plan.May]
// finds in each row. It is a projection of rows, and as many packs as wanted may have rows of a session: of its rows the one with the newest
// revision counts. Searches read the rows of a pack that is missing: it costs time and nothing else.
package index

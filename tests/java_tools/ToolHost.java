import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's command line tools, each in a thread of this one JVM, as if each had a process of its
 * own: own input, output, exit status and shutdown hooks, and classes loaded anew (some count in static fields).
 *
 * Arguments: the jars that the tools' classes come from. Lines in, of words with a space between them, strings in Base64:
 * "run ID CLASS INPUT ARGUMENT..." begins a tool; "stop ID" does to it what SIGTERM does; "look ID" asks what it has said.
 * Lines out: "ended ID STATUS OUT ERR" once for each tool; "looks ID OUT ERR STACK" for each look.
 */
public class ToolHost {
    static class Ended extends Error {
        Ended(int status) { super("exit " + status, null, false, false); }
    }

    static class Job {
        Thread thread;
        volatile URLClassLoader loader;
        final InputStream in;
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final List<Runnable> hooks = new CopyOnWriteArrayList<>();
        volatile Integer status = null;
        Job(byte[] input) { in = new ByteArrayInputStream(input); }
    }

    static final InheritableThreadLocal<Job> CURRENT = new InheritableThreadLocal<>();
    static final Map<String, Job> JOBS = new ConcurrentHashMap<>();
    static final PrintStream ANSWERS = System.out;
    static final PrintStream COMPLAINTS = System.err;

    static PrintStream shared(boolean isError) {
        return new PrintStream(new OutputStream() {
            private OutputStream target() {
                Job job = CURRENT.get();
                if (job == null) return COMPLAINTS;
                // A process that exits says nothing more: some tools catch what ends them here, and print it.
                return job.status != null ? OutputStream.nullOutputStream() : isError ? job.err : job.out;
            }
            @Override public void write(int one) throws java.io.IOException { target().write(one); }
            @Override public void write(byte[] many, int from, int count) throws java.io.IOException {
                target().write(many, from, count);
            }
        }, true, StandardCharsets.UTF_8);
    }

    static InputStream sharedInput() {
        return new InputStream() {
            @Override public int read() throws java.io.IOException { return CURRENT.get().in.read(); }
            @Override public int read(byte[] into, int from, int count) throws java.io.IOException {
                return CURRENT.get().in.read(into, from, count);
            }
            @Override public int available() throws java.io.IOException { return CURRENT.get().in.available(); }
        };
    }

    static byte[] decoded(String word) { return Base64.getDecoder().decode(word.substring(1)); }

    static String encoded(byte[] bytes) { return "=" + Base64.getEncoder().encodeToString(bytes); }

    /** As an exit of the process: its hooks run, and after them nothing is heard of it any more. */
    static void end(int status, String message) {
        Job job = CURRENT.get();
        if (message != null) System.err.println(message);
        runHooks(job);
        if (job.status == null) job.status = status;
        if (Thread.currentThread() != job.thread) job.thread.interrupt();
        throw new Ended(status);
    }

    static void runHooks(Job job) {
        List<Runnable> hooks = List.copyOf(job.hooks);
        job.hooks.clear();
        hooks.forEach(Runnable::run);
        List<Thread> others = runtimeHooks(job.loader).stream().filter(Runtime.getRuntime()::removeShutdownHook).toList();
        others.forEach(Thread::start);
        for (Thread hook : others) {
            try {
                hook.join();
            } catch (InterruptedException ended) {
                return;
            }
        }
    }

    static int run(URL[] jars, String name, String[] arguments) {
        try {
            var loader = new URLClassLoader(jars, ToolHost.class.getClassLoader());
            CURRENT.get().loader = loader;
            Thread.currentThread().setContextClassLoader(loader);
            Class.forName(name, true, loader).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) thrown.getCause().printStackTrace();
            return 1;
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            return 1;
        }
    }

    static void begin(URL[] jars, String[] words) {
        Job job = new Job(decoded(words[3]));
        String[] arguments = new String[words.length - 4];
        for (int i = 4; i < words.length; i++) arguments[i - 4] = new String(decoded(words[i]), StandardCharsets.UTF_8);
        JOBS.put(words[1], job);
        job.thread = new Thread(() -> {
            CURRENT.set(job);
            int status = run(jars, words[2], arguments);
            runHooks(job);
            if (job.status == null) job.status = status;
            answer("ended " + words[1] + " " + job.status + " " + encoded(job.out.toByteArray()) + " "
                + encoded(job.err.toByteArray()));
        });
        job.thread.start();
    }

    static void stop(Job job) {
        new Thread(() -> {
            CURRENT.set(job);
            runHooks(job);
        }).start();
    }

    /** Those that a tool has given to the Java runtime itself: they carry the tool's class loader. Needs java.lang opened. */
    @SuppressWarnings("unchecked")
    static List<Thread> runtimeHooks(ClassLoader loader) {
        try {
            var field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
            field.setAccessible(true);
            return ((Map<Thread, Thread>) field.get(null)).keySet().stream()
                .filter(hook -> hook.getContextClassLoader() == loader).toList();
        } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    static void look(String id, Job job) {
        String stack = String.join("\n", Arrays.stream(job.thread.getStackTrace()).map(Object::toString).toList());
        answer("looks " + id + " " + encoded(job.out.toByteArray()) + " " + encoded(job.err.toByteArray()) + " "
            + encoded(stack.getBytes(StandardCharsets.UTF_8)));
    }

    static synchronized void answer(String line) { ANSWERS.println(line); ANSWERS.flush(); }

    public static void main(String[] paths) throws Exception {
        URL[] jars = new URL[paths.length];
        for (int i = 0; i < paths.length; i++) jars[i] = Path.of(paths[i]).toUri().toURL();
        Exit.setExitProcedure(ToolHost::end);
        Exit.setHaltProcedure(ToolHost::end);
        Exit.setShutdownHookAdder((name, hook) -> CURRENT.get().hooks.add(hook));
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setIn(sharedInput());
        System.setOut(shared(false));
        System.setErr(shared(true));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "run" -> begin(jars, words);
                case "stop" -> stop(JOBS.get(words[1]));
                case "look" -> look(words[1], JOBS.get(words[1]));
            }
        }
        Runtime.getRuntime().halt(0);
    }
}

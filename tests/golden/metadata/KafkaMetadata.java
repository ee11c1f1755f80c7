import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.TreeMap;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Kafka's own metadata records and image, asked line by line.
 *
 *   json TYPE VERSION JSON   ->  the record's bytes in hex
 *   new                      ->  begins an empty image, no answer
 *   replay OFFSET HEX        ->  the records of the image's snapshot that came and went, in hex:
 *                                "+hex +hex -hex", or "refused MESSAGE" with the image as it was before
 */
public class KafkaMetadata {
    static final HexFormat HEX = HexFormat.of();
    static final PrintStream OUT = new PrintStream(System.out, false);
    static MetadataImage image;
    static MetadataBatchLoader loader;
    static TreeMap<String, Integer> written;

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 2);
            switch (words[0]) {
                case "json" -> json(words[1].split(" ", 3));
                case "new" -> begin(MetadataImage.EMPTY);
                case "replay" -> replay(words[1].split(" "));
                default -> throw new IllegalArgumentException(line);
            }
        }
        OUT.flush();
    }

    static void json(String[] words) throws Exception {
        short type = Short.parseShort(words[0]), version = Short.parseShort(words[1]);
        JsonNode node = new ObjectMapper().readTree(words[2]);
        OUT.println(bytesOf(new ApiMessageAndVersion(MetadataJsonConverters.readJson(node, type, version), version)));
    }

    static void begin(MetadataImage start) {
        image = start;
        if (start == MetadataImage.EMPTY) written = new TreeMap<>();
        loader = new MetadataBatchLoader(new LogContext(), Time.SYSTEM, (message, cause) -> {
            throw new IllegalStateException(message, cause);
        }, (delta, newImage, manifest) -> image = newImage, SupportedConfigChecker.TRUE);
        loader.resetToImage(start);
    }

    static void replay(String[] words) {
        long offset = Long.parseLong(words[0]);
        byte[] content = HEX.parseHex(words[1]);
        try {
            var record = MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(ByteBuffer.wrap(content)), content.length);
            loader.loadBatch(Batch.data(offset, 1, 0, content.length, List.of(record)), LeaderAndEpoch.UNKNOWN);
            loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
        } catch (RuntimeException e) {
            begin(image);
            Throwable cause = e.getCause() == null ? e : e.getCause();
            OUT.println("refused " + String.valueOf(cause.getMessage()).lines().findFirst().orElse(""));
            return;
        }
        OUT.println(difference());
    }

    static String difference() {
        var now = new TreeMap<String, Integer>();
        var level = image.features().metadataVersion().orElse(MetadataVersion.LATEST_PRODUCTION);
        var builder = new ImageWriterOptions.Builder(level).setLossHandler(e -> { })
            .setEligibleLeaderReplicasEnabled(image.features().isElrEnabled());
        var writer = new RecordListWriter();
        image.write(writer, builder.build());
        writer.records().forEach(record -> now.merge(bytesOf(record), 1, Integer::sum));
        var out = new StringBuilder();
        now.forEach((hex, count) -> { if (!count.equals(written.get(hex))) out.append(" +").append(hex); });
        written.forEach((hex, count) -> { if (!now.containsKey(hex)) out.append(" -").append(hex); });
        written = now;
        return out.toString().strip();
    }

    static String bytesOf(ApiMessageAndVersion record) {
        var cache = new ObjectSerializationCache();
        int size = MetadataRecordSerde.INSTANCE.recordSize(record, cache);
        var buffer = ByteBuffer.allocate(size);
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
        return HEX.formatHex(buffer.array());
    }
}
